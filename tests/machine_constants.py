"""Numbers of a machine belong to its microarchitecture (compiler/base/uarch), not into forms and passes: this counts those that stand there
all the same, and fails where there are more than machine_constants.txt says.

  python tests/machine_constants.py          check
  python tests/machine_constants.py --list   every number that counts, with its place
  python tests/machine_constants.py --bless  take today's numbers as the most; only ever down

What counts, in sources of compiler/forms and compiler/passes without comments and strings:
  - a floating-point literal other than 0, 0.5, 1 and 2: costs, shares and rates are such;
  - a named constant of a whole number (constexpr .. kName = 128 << 10), but for 0, 1 and 2 and for those of a kernel's own launch or
    tile, which are no property of a machine: names in OF_KERNELS.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["compiler/forms", "compiler/passes"]
LIMITS = pathlib.Path(__file__).with_name("machine_constants.txt")
# Blocks and tiles as the kernels' code has them, limits of file formats and of graphs.
OF_KERNELS = re.compile(
    r"^k(Threads|BlockThreads|Warps|Rows|Cols|StandIn\w+|Digits?|DigitBits|Most(Channels|Parts|Words|Kernel|Outputs|Neighbours|Steps|Products|Factors|Views|Ops|Reach|Step|RunsInTable|InRuns)"
    r"|MaxGridZ?|TileRows|Align|MapAlign|Deepest|MaxSweeps|MaxRounds|Nowhere|One|InPlace|Infinity|UnpackedK|PlannedRows|Places|PlaceBytes|StaticShared|Together|Slab\w+|ExactHalves)$")
PLAIN = {"0", "0.0", "0.5", "1.0", "2.0", "1", "2"}
FLOAT = re.compile(r"(?<![\w.])(\d[\d']*\.\d*(?:[eE][-+]?\d+)?|\d[\d']*[eE][-+]?\d+)[fF]?(?![\w.])")
NAMED = re.compile(r"\bconstexpr\s+(?:u?int(?:\d+_t)?|size_t|auto)\s+([^;{]*);")
ONE = re.compile(r"\b(k[A-Z]\w*)\s*=\s*([^,]+)")


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*", "", text)


def numbers(path):
    text = without_comments(path.read_text())
    found = []
    for m in FLOAT.finditer(text):
        if m.group(1) not in PLAIN:
            found.append((text.count("\n", 0, m.start()) + 1, m.group(1)))
    for m in NAMED.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        for name, value in ONE.findall(m.group(1)):
            whole = value.strip()
            if re.search(r"\d", re.sub(r"\b[A-Za-z_]\w*", "", whole)) and whole not in PLAIN and not OF_KERNELS.match(name):
                found.append((line, f"{name} = {whole}"))
    return sorted(found)


def main():
    counts, places = {}, []
    for folder in FOLDERS:
        files = sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp"))
        found = [(p, n) for p in files for n in numbers(p)]
        counts[folder] = len(found)
        places += [f"{p.relative_to(ROOT)}:{line}: {what}" for p, (line, what) in found]
    if "--list" in sys.argv:
        print("\n".join(places))
    limits = {}
    if LIMITS.exists():
        limits = {k: int(v) for k, v in (line.split() for line in LIMITS.read_text().splitlines() if line.strip())}
    if "--bless" in sys.argv:
        new = {k: min(n, limits.get(k, n)) for k, n in counts.items()}
        LIMITS.write_text("".join(f"{k} {n}\n" for k, n in new.items()))
        limits = new
    worse = {k: n for k, n in counts.items() if n > limits.get(k, 0)}
    for k, n in counts.items():
        print(f"{k}: {n} numbers of machines, at most {limits.get(k, 0)}")
    if worse:
        print("machine_constants: a number of a machine goes into compiler/base/uarch_*.def and uarch/*.uarch; what is none, a limit of a\n"
              "kernel's code, into OF_KERNELS of this script (--list says where the numbers stand)")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
