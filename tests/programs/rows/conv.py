"""Convolutions, pools, interpolation, sampling."""
from generator import FLOATS, INTS, Skip, row


def image(g, nd, channels, dtype, least=1):
    """A batch of images of nd dims, sometimes without the batch."""
    def side():
        return g.dim_text() if g.dynamic and g.chance(0.5) else str(g.int(max(1, least), 9 if nd > 1 else 24))

    return g.leaf(dtype, [g.dim_text() if g.chance(0.5) else str(g.int(1, 3)), channels, *[side() for _ in range(nd)]])


def per_dim(g, nd, options):
    return g.choice([str(g.choice(options)), str(tuple(g.choice(options) for _ in range(nd)))])


@row("convolution", 5)
def conv(g):
    nd = g.choice([1, 2, 2, 2, 3])
    dtype = g.dtype(FLOATS if g.chance(0.85) else INTS)
    groups = g.choice([1, 1, 1, 2, 3])
    cin, cout = groups * g.int(1, 5), groups * g.choice([1, 2, 4, 8])
    if g.chance(0.15):
        groups = cin
        cout = cin * g.int(1, 2)
    if g.chance(0.4):
        x = g.tensor((dtype,), (nd + 2, nd + 2), new=0.0 if any(v.rank == nd + 2 and v.dtype == dtype for v in g.values) else 1.0)
        cin, groups = x.shape[1], 1
        if not cin or x.leaf and x.leaf.dims[1] != str(cin):
            raise Skip
    else:
        x = image(g, nd, cin, dtype)
    kernel = [str(g.int(1, 4)) for _ in range(nd)]
    w = g.leaf(dtype, [cout, cin // groups, *kernel], role="const" if g.chance(0.6) else "input")
    bias = g.leaf(dtype, [cout]) if g.chance(0.6) else None
    same = g.chance(0.1)
    padding = "'same'" if same else per_dim(g, nd, [0, 0, 1, 2])
    stride = "1" if same else per_dim(g, nd, [1, 1, 2, 3])
    text = f"F.conv{nd}d({x}, {w}, {bias}, stride={stride}, padding={padding}, dilation={per_dim(g, nd, [1, 1, 1, 2])}, groups={groups})"
    return g.choice([text, text, f"torch.relu({text})" if dtype in FLOATS else f"({text}) * 2", f"({text}) + 1"])


@row("transposed convolution", 2)
def conv_transpose(g):
    nd = g.choice([1, 2, 2, 3])
    dtype = g.dtype(FLOATS)
    groups = g.choice([1, 1, 2])
    cin, cout = groups * g.int(1, 4), g.int(1, 4)
    x = image(g, nd, cin, dtype)
    w = g.leaf(dtype, [cin, cout, *[str(g.int(1, 4)) for _ in range(nd)]], role="const" if g.chance(0.6) else "input")
    bias = g.leaf(dtype, [cout * groups]) if g.chance(0.5) else None
    stride = g.int(1, 3)
    return f"F.conv_transpose{nd}d({x}, {w}, {bias}, stride={stride}, padding={g.int(0, 1)}, output_padding={g.int(0, stride - 1)}, groups={groups}, dilation={g.choice([1, 1, 2])})"


@row("pool", 5)
def pool(g):
    nd = g.choice([1, 2, 2, 2, 3])
    dtype = g.dtype(FLOATS)
    found = [v for v in g.values if v.rank == nd + 2 and v.dtype in FLOATS and 0 not in v.shape]
    x = g.choice(found) if found and g.chance(0.5) else image(g, nd, g.int(1, 4), dtype, 2)
    kernel = per_dim(g, nd, [1, 2, 2, 3])
    stride = g.choice(["None", per_dim(g, nd, [1, 2, 3])])
    ceil = g.choice(["False", "False", "True"])
    if g.chance(0.5):
        text = f"F.max_pool{nd}d({x}, {kernel}, {stride}, padding={g.choice(['0', '0', '1'])}, dilation={g.choice(['1', '1', '2'])}, ceil_mode={ceil}"
        return (f"{text}, return_indices=True)", 2) if g.chance(0.4) else f"{text})"
    return f"F.avg_pool{nd}d({x}, {kernel}, {stride}, padding={g.choice(['0', '0', '1'])}, ceil_mode={ceil}, count_include_pad={g.choice(['True', 'False'])})"


@row("adaptive pool", 2.5)
def adaptive(g):
    nd = g.choice([1, 2, 2, 3])
    x = g.tensor(FLOATS, (nd + 2, nd + 2), where=lambda v: 0 not in v.shape, new=0) if g.chance(0.3) and any(v.rank == nd + 2 and v.dtype in FLOATS for v in g.values) else image(g, nd, g.int(1, 3), g.dtype(FLOATS))
    out = g.choice([str(g.int(1, 4)), str(tuple(g.choice([1, 2, 3, 5, None]) for _ in range(nd))) if nd > 1 else "3"])
    kind = g.int(0, 3)
    if kind == 0 and nd < 3:
        return f"F.adaptive_max_pool{nd}d({x}, {out}, return_indices=True)", 2
    return f"F.adaptive_{g.choice(['avg', 'avg', 'max'])}_pool{nd}d({x}, {out})"


@row("lp pool, local response", 0.7)
def other_pools(g):
    x = image(g, 2, g.int(1, 5), g.dtype(FLOATS[:2]), 3)
    return g.choice([f"F.lp_pool2d({x}, 2.0, 2)", f"F.local_response_norm({x}, 2)", f"F.max_unpool2d(*F.max_pool2d({x}, 2, return_indices=True), 2)"])


@row("interpolate", 4)
def interpolate(g):
    nd = g.choice([1, 2, 2, 2, 3])
    x = image(g, nd, g.int(1, 3), g.dtype(FLOATS))
    modes = {1: ["nearest", "linear", "nearest-exact", "area"], 2: ["nearest", "bilinear", "bicubic", "nearest-exact", "area"], 3: ["nearest", "trilinear", "nearest-exact", "area"]}[nd]
    mode = g.choice(modes)
    if g.chance(0.5):
        how = f"size={tuple(g.int(1, 9) for _ in range(nd)) if nd > 1 else g.int(1, 15)}"
    else:
        how = f"scale_factor={g.choice(['2', '0.5', '1.7', '3.0', '0.71', str(tuple(g.choice([0.5, 1.5, 2.0, 1.0]) for _ in range(nd))) if nd > 1 else '1.3'])}"
        if g.chance(0.2) and mode not in ("nearest-exact",):
            how += ", recompute_scale_factor=True"
    corners = f", align_corners={g.choice(['True', 'False'])}" if "linear" in mode or mode == "bicubic" else ""
    antialias = ", antialias=True" if nd == 2 and mode in ("bilinear", "bicubic") and g.chance(0.35) else ""
    return f"F.interpolate({x}, {how}, mode={mode!r}{corners}{antialias})"


@row("grid sample", 1.2)
def grid_sample(g):
    n, c, h, w = g.int(1, 2), g.int(1, 3), g.int(1, 7), g.int(1, 7)
    dtype = g.choice(FLOATS[:2])
    x = g.leaf(dtype, [n, c, h, w])
    mode, corners = g.choice(["bilinear", "nearest", "bicubic"]), g.choice(["True", "False"])
    if g.chance(0.3):
        grid = f"F.affine_grid({g.leaf(dtype, [n, 2, 3], 'normal')}, ({n}, {c}, 4, 5), align_corners={corners})"
    else:
        grid = g.leaf(dtype, [n, g.int(1, 5), g.int(1, 5), 2], "normal")
    return f"F.grid_sample({x}, {grid}, mode={mode!r}, padding_mode={g.choice(['zeros', 'border', 'reflection'])!r}, align_corners={corners})"
