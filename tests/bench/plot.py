"""The results of peers_table.py as an SVG: for each model the p50 of every engine over that of aotc, on a logarithmic scale.

    plot.py TABLE.jsonl OUT.svg
    plot.py --check RESULTS     is peers.svg of this folder the plot of its newest peers_*.jsonl? else exit status 1 and what to do

TABLE.jsonl may begin with an object without "model" that says machine, date and commit. The same input gives the same bytes.
"""
import json
import math
import os
import sys

ENGINES = {  # as peers_table.py names them: label, colour, mark
    "eager": ("PyTorch eager", "#7a7a7a", "square"),
    "aoti_ma": ("AOTInductor max-autotune", "#d95f02", "up"),
    "ort": ("ONNX Runtime", "#1b6ca8", "diamond"),
    "ov_f32": ("OpenVINO", "#7b3fa0", "down"),
}
OURS, LEFT, RIGHT, ROW, TOP, GAP, PANEL = "#0b7a3b", 190, 24, 19, 76, 40, 420
TICKS = [0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 30]


def load(path):
    about, rows = {}, {}
    for line in open(path):
        r = json.loads(line)
        if "model" not in r:
            about = r
            continue
        name = r["model"] + (" " + "x".join(map(str, r["at"])) if "at" in r else "")
        if r.get("ms"):
            rows.setdefault(r["threads"], {}).setdefault(name, {})[r["engine"]] = r["ms"]
    return about, rows


def mark(shape, x, y, colour, r=4.5):
    points = {
        "up": [(0, -r), (r, r * 0.8), (-r, r * 0.8)],
        "down": [(0, r), (r, -r * 0.8), (-r, -r * 0.8)],
        "diamond": [(0, -r), (r, 0), (0, r), (-r, 0)],
        "square": [(-r * 0.8, -r * 0.8), (r * 0.8, -r * 0.8), (r * 0.8, r * 0.8), (-r * 0.8, r * 0.8)],
    }[shape]
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)}" fill="{colour}" fill-opacity="0.85"/>'


def text(x, y, s, anchor="start", size=12, colour="#222", weight="normal"):
    s = str(s).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}" font-weight="{weight}">{s}</text>'


def plot(about, rows):
    threads = sorted(rows)
    names = list(dict.fromkeys(n for t in threads for n, r in rows[t].items() if "aotc" in r and any(e in r for e in ENGINES)))
    shown = {e for t in threads for r in rows[t].values() for e in r}
    ratios = [ms / r["aotc"] for t in threads for r in rows[t].values() if "aotc" in r for e, ms in r.items() if e in ENGINES]
    low, high = math.log(min(ratios + [0.9]) * 0.93), math.log(max(ratios + [1.1]) * 1.08)
    width, height = LEFT + len(threads) * PANEL + (len(threads) - 1) * GAP + RIGHT, TOP + len(names) * ROW + 58
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="Helvetica, Arial, sans-serif">', f'<rect width="{width}" height="{height}" fill="#fff"/>',
           text(16, 24, "Time of a run over aotc's (p50): right of the line, aotc is faster", size=15, weight="bold")]
    x = 16
    for label, colour, shape in (v for e, v in ENGINES.items() if e in shown):
        out += [mark(shape, x + 5, 44, colour), text(x + 15, 48, label)]
        x += 30 + 6.6 * len(label)
    for i, t in enumerate(threads):
        x0 = LEFT + i * (PANEL + GAP)
        at = lambda v: x0 + (math.log(v) - low) / (high - low) * PANEL
        bottom = TOP + len(names) * ROW
        out.append(text(x0 + PANEL / 2, TOP - 8, f"{t} thread{'s' if t > 1 else ''}", "middle", weight="bold"))
        for tick in TICKS:
            if low <= math.log(tick) <= high:
                colour, thick = (OURS, 2) if tick == 1 else ("#ddd", 1)
                out.append(f'<line x1="{at(tick):.1f}" y1="{TOP}" x2="{at(tick):.1f}" y2="{bottom}" stroke="{colour}" stroke-width="{thick}"/>')
                out.append(text(at(tick), bottom + 16, "aotc" if tick == 1 else f"{tick:g}x", "middle", 11, OURS if tick == 1 else "#555"))
        for n, name in enumerate(names):
            y = TOP + n * ROW + ROW / 2
            if n % 2 == 0:
                out.insert(3, f'<rect x="{x0}" y="{y - ROW / 2}" width="{PANEL}" height="{ROW}" fill="#f6f6f6"/>')
            r = rows[t].get(name, {})
            if i == 0:
                out.append(text(LEFT - 10, y + 4, name, "end"))
            marks = [(e, r[e] / r["aotc"]) for e in ENGINES if e in r and "aotc" in r]
            if marks:
                ends = [1] + [v for _, v in marks]
                out.append(f'<line x1="{at(min(ends)):.1f}" y1="{y}" x2="{at(max(ends)):.1f}" y2="{y}" stroke="#bbb"/>')
            out += [mark(ENGINES[e][2], at(v), y, ENGINES[e][1]) for e, v in marks]
    told = [about[k] for k in ("machine", "versions", "statistic") if k in about]
    if "date" in about:
        told.append(f"{about['date']}, commit {about.get('commit', '?')}")
    out += [text(16, height - 12, "; ".join(told), size=11, colour="#555"), "</svg>"]
    return "\n".join(out) + "\n"


def check(folder):
    newest = max(f for f in os.listdir(folder) if f.startswith("peers_") and f.endswith(".jsonl"))
    newest, drawn = os.path.join(folder, newest), os.path.join(folder, "peers.svg")
    if open(drawn).read() != plot(*load(newest)):
        sys.exit(f"{drawn} is not the plot of {newest}, the newest results of the zoo: run\n    {sys.argv[0]} {newest} {drawn}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    with open(sys.argv[2], "w") as f:
        f.write(plot(*load(sys.argv[1])))
