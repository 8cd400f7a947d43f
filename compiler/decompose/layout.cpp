// Operators that put elements at other places: joining, repeating, rolling, shuffling, writing a part.
#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/matrices.h"

namespace aotc::decompose {
namespace {

/// Joined in the archive's dtype; legacy empty vectors take no part.
void join(Rule& r, std::vector<ValueId> xs, int64_t dim) {
  const TensorType t = r.meta_result();
  std::vector<ValueId> parts;
  for (ValueId v : xs)
    if (!(r.b.rank(v) == 1 && r.b.dims(v)[0].is(0) && t.rank() != 1)) parts.push_back(r.b.cast(v, t.dtype));
  if (parts.empty()) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  r.set(r.b.cat(parts, static_cast<int>(dim < 0 ? dim + t.rank() - (r.pairs ? 1 : 0) : dim)));
}

void cat(Rule& r) {
  const std::vector<ValueId> xs = r.tensors("tensors");
  join(r, xs, r.has("dim") ? r.integer("dim") : r.has("axis") ? r.integer("axis") : 0);
}

void stack(Rule& r) {
  const int n = r.meta_result().rank();
  const int d = r.has("dim") ? r.dim("dim", n) : 0;
  std::vector<ValueId> xs = r.tensors("tensors");
  for (ValueId& v : xs) v = r.b.unsqueeze(v, d);
  join(r, xs, d);
}

/// hstack, vstack, dstack: each tensor gets at least `rank` dims first.
template <int rank, int dim>
void stack_along(Rule& r) {
  std::vector<ValueId> xs = r.tensors("tensors");
  for (ValueId& v : xs) {
    T x(r.b, v);
    if (rank >= 2 && x.rank() == 0) x = x.reshape({1, 1});
    if (rank == 2 && x.rank() == 1) x = x.unsqueeze(0);
    if (rank == 3 && x.rank() == 1) x = x.unsqueeze(0);
    if (rank == 3 && x.rank() == 2) x = x.unsqueeze(2);
    if (rank == 1 && x.rank() == 0) x = x.reshape({1});
    v = x;
  }
  const int d = rank == 1 && !xs.empty() && r.b.rank(xs[0]) == 1 ? 0 : dim;
  join(r, xs, d);
}

void column_stack(Rule& r) {
  std::vector<ValueId> xs = r.tensors("tensors");
  for (ValueId& v : xs) {
    const T x(r.b, v);
    if (x.rank() == 0) v = x.reshape({1, 1});
    if (x.rank() == 1) v = x.unsqueeze(1);
  }
  join(r, xs, 1);
}

T roll_one(const T& x, const Expr& shift, int d, SymTable& syms) {
  const Expr n = x.dim(d);
  if (n.is(0) || n.is(1)) return x;
  const Expr k = syms.simplify(mod(shift, max(n, 1)));  // there may be nothing to roll
  if (k.is(0)) return x;
  const Expr head = syms.simplify(n - k);
  return {x.b(), x.b().cat({x.slice(d, head, k), x.slice(d, 0, head)}, d)};
}

void roll(Rule& r) {
  const T x = tensor(r, "self");
  const std::vector<Expr> shifts = r.syms("shifts");
  const Ints dims = r.integers("dims");
  if (x.rank() == 0) return r.set(x);
  if (dims.empty()) {
    const T flat = x.reshape({x.b().type(x).elems()});
    return r.set(roll_one(flat, shifts.at(0), 0, r.b.syms()).reshape(x.dims()));
  }
  T y = x;
  for (size_t i = 0; i < dims.size(); ++i)
    y = roll_one(y, shifts.at(i), static_cast<int>(dims[i] < 0 ? dims[i] + x.rank() : dims[i]), r.b.syms());
  r.set(y);
}

void flip(Rule& r) {
  const T x = tensor(r, "self");
  const Ints d = r.dims("dims", x.rank(), false);
  r.set(d.empty() ? static_cast<ValueId>(x) : r.b.flip(x, d));
}
template <int axis>
void flip_axis(Rule& r) {
  r.set(r.b.flip(r.tensor("self"), {axis}));
}

void rot90(Rule& r) {
  const T x = tensor(r, "self");
  Ints d = r.integers("dims");
  for (int64_t& i : d)
    if (i < 0) i += x.rank();
  const int64_t k = ((r.integer("k") % 4) + 4) % 4;
  const int a = static_cast<int>(d.at(0)), c = static_cast<int>(d.at(1));
  if (k == 0) return r.set(x);
  if (k == 2) return r.set(r.b.flip(x, {a, c}));
  if (k == 1) return r.set(r.b.transpose(r.b.flip(x, {c}), a, c));
  r.set(r.b.flip(r.b.transpose(x, a, c), {c}));
}

/// Each dim d of x repeated times[d] as a whole.
T tile_to(const T& x, const std::vector<Expr>& times, const std::vector<Expr>& to) {
  std::vector<Expr> one, many;
  const size_t lead = times.size() - static_cast<size_t>(x.rank());
  for (size_t i = 0; i < times.size(); ++i) {
    const Expr size = i < lead ? Expr(1) : x.dims()[i - lead];
    one.insert(one.end(), {Expr(1), size});
    many.insert(many.end(), {times[i], size});
  }
  return x.reshape(one).expand(many).reshape(to);
}

void repeat(Rule& r) {
  const T x = tensor(r, "self");
  std::vector<Expr> times = r.syms(r.has("repeats") ? "repeats" : "dims");
  while (times.size() < static_cast<size_t>(x.rank())) times.insert(times.begin(), Expr(1));
  const TensorType t = r.meta_result();
  std::vector<Expr> own = times;
  for (size_t i = 0; i < own.size(); ++i)
    if (const size_t lead = own.size() - static_cast<size_t>(x.rank()); i >= lead) own[i] = own[i] * x.dims()[i - lead];
  r.agree(own, t.dims, "the repeated tensor");
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  r.set(tile_to(x, times, t.dims));
}

/// Each place of the result lies within the repeats of the element whose end is the first beyond it: as many ends are not beyond.
void repeat_by_counts(Rule& r) {
  std::optional<T> x;
  if (r.has("self")) x = tensor(r, "self");
  if (x && r.none("dim")) x = x->reshape({r.b.type(*x).elems()});
  const int d = r.has("dim") && !r.none("dim") ? r.dim("dim", x->rank()) : 0;
  const TensorType t = r.meta_result();
  T counts = tensor(r, "repeats").to(DType::i64);
  const Expr n = x ? x->dim(d) : counts.dim(0);
  Expr out = t.dims.at(static_cast<size_t>(d));
  if (counts.rank() == 0 || counts.dim(0).is(1)) counts = counts.reshape({1}).expand({n});
  r.agree(n, counts.dim(0), "the repeat counts");
  must_hold(r, counts >= 0.0, "a count is negative");
  if (r.none("output_size"))
    out = r.found_within_largest(out, counts.sum({0}, false));
  else
    r.agree(r.sym("output_size"), out, "the repeated dimension");
  const T ends(r.b, r.b.scan(ReduceKind::sum, counts, 0));
  const T from = (ends.reshape({1, n}) <= iota(r.b, {out, 1}, 0)).to(DType::i64).sum({1}, false);
  r.set(x ? r.b.index(*x, {from}, {d}, d) : static_cast<ValueId>(from.to(t.dtype)));
}

void repeat_interleave(Rule& r) {
  if (r.is_tensor("repeats")) return repeat_by_counts(r);
  T x = tensor(r, "self");
  if (r.none("dim")) x = x.reshape({r.b.type(x).elems()});
  const int d = r.none("dim") ? 0 : r.dim("dim", x.rank());
  const TensorType t = r.meta_result();
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  if (x.rank() == 0) x = x.reshape({1});
  r.agree(x.dim(d) * r.sym("repeats"), t.dims.at(static_cast<size_t>(d)), "the repeated dimension");
  const T y = x.unsqueeze(d + 1);
  std::vector<Expr> many = y.dims();
  many[static_cast<size_t>(d) + 1] = r.sym("repeats");
  r.set(y.expand(many).reshape(t.dims));
}

void meshgrid(Rule& r) {
  std::vector<ValueId> xs = r.tensors("tensors");
  const bool xy = r.has("indexing") && r.text("indexing") == "xy" && xs.size() >= 2;
  if (xy) std::swap(xs[0], xs[1]);
  std::vector<Expr> dims;
  for (ValueId v : xs) dims.push_back(r.b.type(v).elems());
  std::vector<ValueId> out;
  for (size_t i = 0; i < xs.size(); ++i) {
    std::vector<Expr> one(xs.size(), Expr(1));
    one[i] = dims[i];
    out.push_back(T(r.b, xs[i]).reshape(one).expand(dims));
  }
  if (xy) std::swap(out[0], out[1]);
  r.set_list(0, out);
}

void pixel_shuffle(Rule& r) {
  const T x = tensor(r, "self");
  const Expr f = r.sym("upscale_factor");
  const int n = x.rank();
  std::vector<Expr> split(x.dims().begin(), x.dims().end() - 3);
  Ints perm;
  for (int i = 0; i < n - 3; ++i) perm.push_back(i);
  const Expr channels = floordiv(x.dim(-3), f * f);
  std::vector<Expr> to = split;
  split.insert(split.end(), {channels, f, f, x.dim(-2), x.dim(-1)});
  to.insert(to.end(), {channels, x.dim(-2) * f, x.dim(-1) * f});
  for (int i : {0, 3, 1, 4, 2}) perm.push_back(n - 3 + i);
  r.set(x.reshape(split).permute(perm).reshape(to));
}
void pixel_unshuffle(Rule& r) {
  const T x = tensor(r, "self");
  const Expr f = r.sym("downscale_factor");
  const int n = x.rank();
  std::vector<Expr> split(x.dims().begin(), x.dims().end() - 2);
  Ints perm;
  for (int i = 0; i < n - 2; ++i) perm.push_back(i);
  const Expr rows = floordiv(x.dim(-2), f), columns = floordiv(x.dim(-1), f);
  std::vector<Expr> to(x.dims().begin(), x.dims().end() - 3);
  split.insert(split.end(), {rows, f, columns, f});
  to.insert(to.end(), {x.dim(-3) * f * f, rows, columns});
  for (int i : {1, 3, 0, 2}) perm.push_back(n - 2 + i);
  r.b.require(ShapeGuard::Kind::divisible, x.dim(-2), f, "rows by the factor");
  r.b.require(ShapeGuard::Kind::divisible, x.dim(-1), f, "columns by the factor");
  r.set(x.reshape(split).permute(perm).reshape(to));
}
void channel_shuffle(Rule& r) {
  const T x = tensor(r, "self");
  const Expr g = r.sym("groups");
  std::vector<Expr> split = x.dims();
  split[1] = floordiv(x.dim(1), g);
  split.insert(split.begin() + 1, g);
  r.set(r.b.reshape(r.b.transpose(x.reshape(split), 1, 2), x.dims()));
}

void slice_scatter(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  std::vector<Expr> src_dims = x.dims();
  if (const auto read = read_slice(r, x.dim(d), tensor(r, "src").dim(d))) {
    src_dims[static_cast<size_t>(d)] = read->length;
    return r.set(write_along(x, tensor(r, "src").to(x.dtype()).expand(src_dims), places_of(*read, x.dim(d)), d));
  }
  const Expr step = slice_step(r);
  const Expr start = slice_bound(r, "start", x.dim(d), 0);
  src_dims[static_cast<size_t>(d)] = slice_length(r, start, slice_bound(r, "end", x.dim(d), x.dim(d)), step);
  r.set(write_slice(x, tensor(r, "src").to(x.dtype()).expand(src_dims), d, start, step));
}

void select_scatter(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  std::vector<Expr> dims = x.dims();
  dims.erase(dims.begin() + d);
  if (const auto i = r.read_integer("index")) return r.set(write_along(x, tensor(r, "src").to(x.dtype()).expand(dims), {r.b, *i}, d));
  const Expr i = wrap_index(r, r.sym("index"), x.dim(d));
  r.set(write_slice(x, tensor(r, "src").to(x.dtype()).expand(dims).unsqueeze(d), d, i, 1));
}

/// A square matrix in dims (dim1, dim2) with x on a diagonal and zeros elsewhere.
void diag_embed(Rule& r) {
  const T x = tensor(r, "self");
  const TensorType t = r.meta_result();
  const int n = t.rank();
  const bool plain = !r.has("offset");  // diag of a vector
  const int64_t k = r.integer(plain ? "diagonal" : "offset");
  const int a = plain ? 0 : r.dim("dim1", n), c = plain ? 1 : r.dim("dim2", n);
  const Expr size = r.agree(x.dim(-1) + std::abs(k), t.dims[static_cast<size_t>(a)], "the matrix");
  const T i = iota(r.b, {size, size}, 0), j = iota(r.b, {size, size}, 1);
  const T on = (j - i) == static_cast<double>(k);
  // Row i holds x[i] for k >= 0 (the column runs ahead) and x[i - |k|] for k < 0.
  std::vector<Expr> plo(static_cast<size_t>(x.rank()), Expr(0)), phi = plo;
  (k >= 0 ? phi : plo).back() = Expr(std::abs(k));
  const T rows = is_bool(x.dtype()) ? T(r.b, r.b.pad(x.to(DType::u8), plo, phi, 0)).to(DType::boolean) : T(r.b, r.b.pad(x, plo, phi, 0));
  const T m = rows.unsqueeze(-1);
  std::vector<Expr> dims = m.dims();
  dims.back() = size;
  const T full_m = m.expand(dims);
  const T y = is_bool(x.dtype()) ? full_m & on.expand(dims) : where(on, full_m, 0.0);
  Ints perm(static_cast<size_t>(n), -1);
  perm[static_cast<size_t>(a)] = n - 2;
  perm[static_cast<size_t>(c)] = n - 1;
  int64_t next = 0;
  for (int64_t& p : perm)
    if (p < 0) p = next++;
  r.set(y.permute(perm));
}

void diag(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 1) return diag_embed(r);
  const int64_t k = r.integer("diagonal");
  const TensorType t = r.meta_result();
  r.agree({diagonal_length(r, x.dim(0), x.dim(1), k)}, t.dims, "the diagonal");
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  r.set(r.b.strided(x, t.dims, {x.dim(1) + 1}, k >= 0 ? Expr(k) : x.dim(1) * -k));
}

void block_diag(Rule& r) {
  const TensorType t = r.meta_result();
  std::vector<ValueId> rows;
  Expr at = 0;
  for (ValueId v : r.tensors("tensors")) {
    T x = T(r.b, v).to(t.dtype);
    if (x.rank() == 0) x = x.reshape({1, 1});
    if (x.rank() == 1) x = x.unsqueeze(0);
    rows.push_back(r.b.pad(x, {0, at}, {0, t.dims[1] - at - x.dim(1)}, 0));
    at += x.dim(1);
  }
  r.set(r.b.cat(rows, 0));
}

void diagflat(Rule& r) {
  const T x = tensor(r, "self");
  const TensorType t = r.meta_result();
  const int64_t k = r.integer("offset");
  const Expr size = r.b.type(x).elems() + std::abs(k);
  r.agree({size, size}, t.dims, "the matrix");
  const T flat = x.reshape({r.b.type(x).elems()});
  const T padded(r.b, r.b.pad(flat, {Expr(k < 0 ? -k : 0)}, {Expr(k > 0 ? k : 0)}, 0));
  const T on = (iota(r.b, t.dims, 1) - iota(r.b, t.dims, 0)) == static_cast<double>(k);
  const T rows = padded.unsqueeze(1).expand(t.dims);
  r.set(is_bool(t.dtype) ? rows & on : where(on, rows, 0.0));
}

/// x with a diagonal replaced by src.
void diagonal_scatter(Rule& r) {
  const T x = tensor(r, "self"), src = tensor(r, "src").to(x.dtype());
  const int a = r.dim("dim1", x.rank()), c = r.dim("dim2", x.rank());
  const int64_t k = r.integer("offset");
  if (src.rank() > 0 && src.dim(-1).is(0)) return r.set(x);
  // src's last dim runs along both; spread it over rows, then over columns where they meet.
  const T row = iota(r.b, {x.dim(a)}, 0);
  const T place = maximum(minimum(k < 0 ? row + static_cast<double>(k) : row, scalar_of(r.b, src.dim(-1) - 1, DType::i64)), 0.0);
  const T spread = take_index(src, place, src.rank() - 1).unsqueeze(-1);  // [.., rows, 1]
  Ints perm(static_cast<size_t>(x.rank()), -1);
  perm[static_cast<size_t>(a)] = x.rank() - 2;
  perm[static_cast<size_t>(c)] = x.rank() - 1;
  int64_t next = 0;
  for (int64_t& p : perm)
    if (p < 0) p = next++;
  const T on = (iota(r.b, x.dims(), c) - iota(r.b, x.dims(), a)) == static_cast<double>(k);
  r.set(where(on, spread.permute(perm), x));
}

void cartesian_prod(Rule& r) {
  const std::vector<ValueId> xs = r.tensors("tensors");
  const TensorType t = r.meta_result();
  if (xs.size() == 1) return r.set(xs[0]);
  std::vector<Expr> grid;
  for (ValueId v : xs) grid.push_back(r.b.dims(v)[0]);
  r.agree({product(grid), Expr(static_cast<int64_t>(xs.size()))}, t.dims, "the product");
  std::vector<ValueId> columns;
  for (size_t i = 0; i < xs.size(); ++i) {
    std::vector<Expr> line(xs.size(), Expr(1));
    line[i] = grid[i];
    columns.push_back(T(r.b, xs[i]).reshape(line).expand(grid).reshape({t.dims[0], 1}));
  }
  r.set(r.b.cat(columns, 1));
}

/// Sums broadcast dims away.
void sum_to_size(Rule& r) {
  const T x = tensor(r, "self");
  const TensorType t = r.meta_result();
  const int lead = x.rank() - t.rank();
  Ints over;
  for (int i = 0; i < x.rank(); ++i)
    if (i < lead || (t.dims[static_cast<size_t>(i - lead)].is(1) && !x.dim(i).is(1))) over.push_back(i);
  if (over.empty()) return r.set(x.to(t.dtype).reshape(t.dims));
  if (is_bool(x.dtype()) && is_bool(t.dtype)) return r.set(x.reduce(ReduceKind::max, over, false).reshape(t.dims));
  if (!is_float(x.dtype())) return r.set(x.to(t.dtype).sum(over, false).reshape(t.dims));
  r.set(x.up().sum(over, false).to(t.dtype).reshape(t.dims));
}

template <bool inverse>
void fft_shift(Rule& r) {
  T x = tensor(r, "self");
  for (int64_t d : r.dims("dim", x.rank(), false)) {
    const Expr n = x.dim(static_cast<int>(d)), half = floordiv(n, 2);
    x = roll_one(x, inverse ? n - half : half, static_cast<int>(d), r.b.syms());
  }
  r.set(x);
}

void copy(Rule& r) {
  const T x = tensor(r, "self"), src = tensor(r, "src");
  r.set(src.to(x.dtype()).expand(x.dims()));
}

constexpr RuleRow kRows[] = {
    {"aten.cat.default aten.concat.default aten.concatenate.default aten._cat.default", cat},
    {"aten.stack.default", stack},
    {"aten.hstack.default", stack_along<1, 1>},
    {"aten.vstack.default aten.row_stack.default", stack_along<2, 0>},
    {"aten.dstack.default", stack_along<3, 2>},
    {"aten.column_stack.default", column_stack},
    {"aten.roll.default", roll},
    {"aten.flip.default", flip},
    {"aten.fliplr.default", flip_axis<1>},
    {"aten.flipud.default", flip_axis<0>},
    {"aten.rot90.default", rot90},
    {"aten.repeat.default aten.tile.default", repeat},
    {"aten.repeat_interleave.self_int aten.repeat_interleave.self_Tensor aten.repeat_interleave.Tensor", repeat_interleave},
    {"aten.meshgrid.default aten.meshgrid.indexing", meshgrid},
    {"aten.pixel_shuffle.default", pixel_shuffle},
    {"aten.pixel_unshuffle.default", pixel_unshuffle},
    {"aten.channel_shuffle.default aten.native_channel_shuffle.default", channel_shuffle},
    {"aten.slice_scatter.default", slice_scatter},
    {"aten.select_scatter.default", select_scatter},
    {"aten.diag_embed.default", diag_embed},
    {"aten.diag.default", diag},
    {"aten.block_diag.default", block_diag},
    {"aten.diagflat.default", diagflat},
    {"aten.diagonal_scatter.default", diagonal_scatter},
    {"aten.cartesian_prod.default", cartesian_prod},
    {"aten.sum_to_size.default", sum_to_size},
    {"aten.fft_fftshift.default", fft_shift<false>},
    {"aten.fft_ifftshift.default", fft_shift<true>},
    {"aten.copy.default", copy},
};
}  // namespace

RuleTable layout_rules() { return kRows; }

}  // namespace aotc::decompose
