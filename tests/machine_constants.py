"""Numbers of a machine belong to its microarchitecture (compiler/base/uarch), not into forms and passes: this fails where one stands there.

  python tests/machine_constants.py

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
# Blocks and tiles as the kernels' code has them, limits of file formats and of graphs.
OF_KERNELS = re.compile(
    r"^k(Threads|BlockThreads|Warps|Rows|Cols|StandInKc|Digits|DigitBits|Most(Channels|Parts|Words|Kernel|Outputs|Neighbours|Steps|Products|Factors|Views|Ops|Reach|Step|RunsInTable|InRuns)"
    r"|MaxGridZ?|TileRows|Align|MapAlign|Deepest|MaxSweeps|MaxRounds|One|InPlace|PlannedRows|Places|PlaceBytes|StaticShared|Together|Slab(Bytes|Columns|LeastGroup|Line)|ExactHalves)$")
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
    places = []
    for folder in FOLDERS:
        for p in sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp")):
            places += [f"{p.relative_to(ROOT)}:{line}: {what}" for line, what in numbers(p)]
    if places:
        print("\n".join(places))
        print("machine_constants: a number of a machine goes into compiler/base/uarch_*.def and uarch/*.uarch; a limit of a kernel's code beside the\n"
              "kernel (aotc/detail/*_abi.h, kernels/cuda/limits.cuh); what compiling may take into base/effort.h")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
