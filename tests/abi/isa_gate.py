"""The instructions of an artifact are what it demands of the CPU, by disassembly: each object of the kernel library holds code of its
instruction set, the runtime holds baseline code, and of small models (f32, bf16) for each --cpu no instruction lies beyond
what `aotc inspect` says is needed, nor is AVX-512 or bf16 demanded where no instruction is of it.

    isa_gate.py --aotc BIN --library LIB.A --runtime LIB.A --work DIR
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import warnings

# What an instruction belongs to: the first row that its mnemonic (and operands) match. AT&T syntax.
MNEMONICS = [
    ("amx", r"tile|tdp|ldtilecfg|sttilecfg"),
    ("avx512_bf16", r"vcvtne2?ps2bf16|vdpbf16ps"),
    ("avx512_vnni", r"vpdp(bus|wss|wus|bss|bsu|buu|wsu|wuu)ds?"),
    ("f16c", r"vcvtph2ps$|vcvtps2ph$"),
    ("avx512_fp16", r"v\w+(ph|sh)$|vcvt\w*ph\w*"),
    ("later avx512", r"vperm[it]2b|vpermb$|vpmultishiftqb|vpcompress[bw]|vpexpand[bw]|vpsh[lr]d|vpmadd52|vpopcnt|vpshufbitqmb|v?gf2p8"
     r"|vaes|vpclmul|vp2intersect|v4fn?madd|vp4dp"),
    ("other", r"aes|pclmul|sha(1|256)|adcx|adox|rdrand|rdseed|xbegin|crc32"),
    ("fma", r"vfn?m(add|sub)|vfm(addsub|subadd)"),
    ("bmi", r"andn[lq]?$|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext[lq]?$|rorx|sarx|shlx|shrx|lzcnt|movbe"),
]
# x86-64-v2, whose extensions every AVX2 machine has; tzcnt is not here: as bsf it runs everywhere.
V2 = (r"popcnt|addsubp|haddp|hsubp|lddqu|mov(d|sh|sl)dup|pshufb|phadd|phsub|palignr|pabs|psign|pmulhrsw|pmaddubsw|p?blend|dpp[sd]|extractps"
      r"|insertps|mpsadbw|packusdw|pcmp(eqq|gtq)|pextr[bdq]|pinsr[bdq]|phminpos|pm(ax|in)(sb|sd|ud|uw)|pmov[sz]x|pmuldq|pmulld|ptest|round[ps][sd]"
      r"|movntdqa|pcmp[ie]str")
COMPILED = [(name, re.compile(text)) for name, text in MNEMONICS]
COMPILED_V2 = re.compile(V2)
WIDE = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])\b|%k[0-7]\b")
LINE = re.compile(r"^\s+[0-9a-f]+:\s+(?:(?:lock|rep|repz|repnz|bnd|notrack|data16|cs|ds|fs|gs|es|ss)\s+)*(\S+)\s*(.*)$")

# What the words of `inspect` allow. Operating system support is no instruction.
ALLOWS = {"avx2": {"avx2"}, "fma": {"fma"}, "f16c": {"f16c"}, "bmi1/bmi2/lzcnt/movbe": {"bmi"}, "avx512f": {"avx512"},
          "avx512dq/bw/vl/cd": {"avx512"}, "avx512_bf16/vnni": {"avx512_bf16", "avx512_vnni"},
          "amx-tile/amx-bf16/amx-int8": {"amx"}}
V3 = {"avx2", "fma", "f16c", "bmi"}
BY_ISA = {"avx2": V3, "avx512": V3 | {"avx512"}, "avx512_bf16": V3 | {"avx512", "avx512_bf16", "avx512_vnni"}}
BY_ISA["amx"] = BY_ISA["avx512_bf16"] | {"amx"}
# To be demanded only where an instruction is of it, or of one of them where one demand stands for several.
PROOF = (("avx512",), ("avx512_bf16", "avx512_vnni"), ("amx",))
MEMBER_PROOF = {"avx512": PROOF[:1], "avx512_bf16": PROOF[:2], "amx": (PROOF[0], PROOF[2])}


def classes(mnemonic, operands):
    out = set()
    for name, pattern in COMPILED:
        if pattern.match(mnemonic):
            out.add(name)
            break
    if WIDE.search(operands):
        out.add("avx512")
    elif not out and (mnemonic.startswith("v") or "%ymm" in operands or COMPILED_V2.match(mnemonic)):
        out.add("avx2")
    return out


def disassemble(path):
    """{member: {class: an example}}"""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    found = collections.defaultdict(dict)
    seen = {}
    member = os.path.basename(path)
    for line in text.split("\n"):
        m = LINE.match(line)
        if not m:
            if line.endswith("file format elf64-x86-64"):
                member = os.path.basename(line.split(":")[0])
                found[member]
            continue
        mnemonic, operands = m.groups()
        registers = WIDE.search(operands) is not None, "%ymm" in operands
        key = mnemonic, registers
        if key not in seen:
            seen[key] = classes(mnemonic, operands)
        for c in seen[key]:
            found[member].setdefault(c, f"{mnemonic} {operands}")
    assert seen, f"{path}: nothing was disassembled"
    return found


def check(what, found, allowed, proofs=(), called=()):
    """called: classes of instructions in what it calls elsewhere."""
    beyond = {c: e for c, e in found.items() if c not in allowed}
    assert not beyond, f"{what} holds instructions beyond {sorted(allowed)}: {beyond}"
    idle = [any_of for any_of in proofs if not set(any_of) & (found.keys() | set(called))]
    assert not idle, f"{what} demands {idle}; neither it nor the tiles that it calls hold such an instruction"


def members_called(path):
    """{member: the members of the archive that define symbols which it lacks}"""
    text = subprocess.run(["nm", "-A", path], capture_output=True, text=True, check=True).stdout
    lacks, defined = collections.defaultdict(set), {}
    for line in text.split("\n"):
        m = re.match(r".*:([^:]+\.o):\s*[0-9a-f]*\s+(\w)\s+(\S+)$", line)
        if m and m[2] == "U":
            lacks[m[1]].add(m[3])
        elif m and m[2].isupper():
            defined[m[3]] = m[1]
    return {member: {defined[s] for s in symbols if s in defined} for member, symbols in lacks.items()}


def objects(o):
    for member, found in disassemble(o.runtime).items():
        check(member, found, set())
    n = 0
    library, called = disassemble(o.library), members_called(o.library)
    for member, found in library.items():
        isa = re.match(r".*?_(avx2|avx512|avx512_bf16|amx)\.cpp\.o$", member)
        assert isa, f"{member} names no instruction set"
        allowed = BY_ISA[isa[1]]
        beside = set().union(*(library[other].keys() for other in called.get(member, ())))
        check(member, found, allowed, MEMBER_PROOF.get(isa[1], ()), beside)
        n += 1
    assert n > 20
    print(f"ok   {n} objects of the library, the runtime")


def models():
    import torch
    import torch.nn as nn

    def mlp():
        return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 33), nn.Softmax(-1))

    torch.manual_seed(0)
    x = torch.randn(8, 64)
    # name: module, input, for a --cpu what the versions are called and what they demand beyond v3
    dot = {"avx512", "avx512_bf16", "avx512_vnni"}
    return {
        "f32": (mlp(), x, {"avx512_bf16": (["avx512"], {"avx512"}), "amx": (["avx512"], {"avx512"})}),
        "bf16": (mlp().bfloat16(), x.bfloat16(),
                 {"avx512_bf16": (["avx512_bf16"], dot), "amx": (["avx512_bf16", "amx"], dot | {"amx"})}),
    }


def artifacts(o):
    import torch

    for name, (module, x, versions) in models().items():
        pt2 = os.path.join(o.work, name + ".pt2")
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.export.save(torch.export.export(module.eval(), (x,)), pt2)
        for cpu in ("avx2", "avx512", "avx512_bf16", "amx", "portable"):
            so, keep = os.path.join(o.work, f"{name}_{cpu}.so"), os.path.join(o.work, f"{name}_{cpu}_keep")
            subprocess.run([o.aotc, "build", pt2, "-o", so, "--cpu", cpu, "--threads", "1", "--keep", keep, "--quiet"], check=True)
            told = inspect(o, so)
            demanded = set().union(*(ALLOWS.get(n, set()) for c in told for n in c["needs"]))
            check(os.path.basename(so), disassemble(so)[os.path.basename(so)], demanded, [any_of for any_of in PROOF if set(any_of) <= demanded])
            for c in told:
                for file in os.listdir(keep):
                    if re.fullmatch(rf"loops\d+_{c['version']}\.o", file):
                        check(f"{name} {file}", disassemble(os.path.join(keep, file))[file], set().union(*(ALLOWS.get(n, set()) for n in c["needs"])))
            if cpu in versions:
                names, extra = versions[cpu]
                assert [c["version"] for c in told] == names and demanded - V3 == extra, told
        print("ok  ", name)


def inspect(o, so):
    r = subprocess.run([o.aotc, "inspect", so, "--json"], capture_output=True, text=True, check=True)
    return json.loads(r.stdout)["code"]


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "library", "runtime", "work"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    objects(o)
    artifacts(o)


if __name__ == "__main__":
    sys.exit(main())
