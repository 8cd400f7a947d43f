#!/usr/bin/env python3
"""Makes wheels of what is built; needs nothing but Python's library and readelf. The same tree gives the same bytes (SOURCE_DATE_EPOCH, else 1980).

  wheel.py runtime --package BUILD/python/aotc_runtime --version 0.1.0 -o OUT    aotc_runtime-0.1.0-cp39-abi3-manylinux_2_17_x86_64.whl
  wheel.py compiler --prefix PREFIX --version 0.1.0 -o OUT                       aotc-0.1.0-py3-none-manylinux_2_NN_x86_64.whl

PREFIX is what `cmake --install` made: bin/ becomes the wheel's scripts and everything else its data, which pip puts below the environment's own
prefix. So `aotc` starts at once (no Python in between), finds lib/aotc beside itself, and the environment is a CMake prefix.

The tag is the oldest system on which every file loads: the newest versions that its symbols ask of glibc and of libstdc++, held against the
manylinux policies. LibTorch, which only libaotc_torch.so asks for, is the user's torch and is not counted.
"""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# The newest symbol versions that a manylinux policy allows (PEP 600's, as auditwheel has them): 2.N of glibc, 3.4.N of GLIBCXX, 1.3.N of CXXABI.
POLICIES = [(17, 19, 7), (24, 22, 10), (27, 24, 11), (31, 28, 12), (34, 29, 13), (35, 30, 13), (39, 33, 15)]
# Libraries that every manylinux system has; and those of LibTorch.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
LIBTORCH = {"libtorch_cpu.so", "libc10.so"}


def symbols(path):
    """((glibc, GLIBCXX, CXXABI), needed libraries) of an ELF file, versions as in POLICIES."""
    text = subprocess.run(["readelf", "-W", "-V", "-d", str(path)], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    newest = lambda pattern: max((int(n) for n in re.findall(r"Name: " + pattern + r"(\d+)", text)), default=0)
    return (newest(r"GLIBC_2\."), newest(r"GLIBCXX_3\.4\."), newest(r"CXXABI_1\.3\.")), set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def platform(paths):
    floor = (0, 0, 0)
    for path in paths:
        versions, needed = symbols(path)
        foreign = needed - SYSTEM - LIBTORCH
        if foreign:
            sys.exit(f"wheel: {path} needs {', '.join(sorted(foreign))}, which users' machines may lack")
        floor = tuple(map(max, floor, versions))
    why = "glibc 2.{}, GLIBCXX_3.4.{}, CXXABI_1.3.{}".format(*floor)
    for policy in POLICIES:
        if all(have <= allowed for have, allowed in zip(floor, policy)):
            return f"manylinux_2_{policy[0]}_x86_64", why
    sys.exit(f"wheel: no manylinux policy has {why}")


def write(out, name, version, tag, files, metadata):
    """files: (name in the wheel, path on disk)"""
    stamp = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    info = f"{name}-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: aotc\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries = [(arc, Path(path).read_bytes(), os.access(path, os.X_OK)) for arc, path in sorted(files)]
    entries += [(f"{info}/METADATA", metadata.encode(), False), (f"{info}/WHEEL", wheel.encode(), False),
                (f"{info}/licenses/LICENSE", (HERE.parent / "LICENSE").read_bytes(), False)]
    record = ""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}-{version}-{tag}.whl"
    part = path.with_suffix(".part")

    def add(archive, arc, data, executable):
        entry = zipfile.ZipInfo(arc, stamp)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        archive.writestr(entry, data)

    try:
        with zipfile.ZipFile(part, "w") as archive:
            for arc, data, executable in entries:
                add(archive, arc, data, executable)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                record += f"{arc},sha256={digest},{len(data)}\n"
            add(archive, f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def metadata(name, version, summary, requires_python, extra, text):
    return (f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nSummary: {summary}\nLicense-Expression: Apache-2.0\n"
            f"License-File: LICENSE\nRequires-Python: {requires_python}\nClassifier: Operating System :: POSIX :: Linux\n"
            f"{extra}Description-Content-Type: text/markdown\n\n{text}")


def runtime(args):
    package = Path(args.package)
    extension = package / "_native.abi3.so"
    files = [(f"aotc_runtime/{p.name}", p) for p in package.iterdir() if p.suffix in (".py", ".pyi", ".so", ".typed") or p.name == "py.typed"]
    target, why = platform([extension])
    text = (HERE.parent / "runtime" / "python" / "README.md").read_text()
    about = metadata("aotc-runtime", args.version, "Runs models that aotc compiled: NumPy and DLPack, no torch, no compiler", ">=3.9",
                     "Provides-Extra: numpy\nRequires-Dist: numpy; extra == 'numpy'\n", text)
    return write(Path(args.output), "aotc_runtime", args.version, f"cp39-abi3-{target}", files, about), why


def torch_range():
    numbers = (HERE / "libtorch.cmake").read_text()
    oldest, newest = (re.search(rf"set\(AOTC_LIBTORCH_{which} ([\d.]+)\)", numbers).group(1) for which in ("OLDEST", "NEWEST"))
    major, minor = newest.split(".")
    return f">={oldest},<{major}.{int(minor) + 1}"


def compiler(args):
    prefix = Path(args.prefix).resolve()
    root = f"aotc-{args.version}.data"
    files = []
    for path in sorted(p for p in prefix.rglob("*") if p.is_file()):
        name = path.relative_to(prefix).as_posix()
        if path.name == "libtorch.path":
            continue  # where LibTorch is on this machine
        files.append((f"{root}/scripts/{name[4:]}" if name.startswith("bin/") else f"{root}/data/{name}", path))
    if not any(arc.endswith("/scripts/aotc") for arc, _ in files):
        sys.exit(f"wheel: {prefix} has no bin/aotc: cmake --install it first")
    target, why = platform([p for _, p in files if is_elf(p)])
    extra = f"Provides-Extra: torch\nRequires-Dist: torch{torch_range()}; extra == 'torch'\n"
    text = (HERE / "wheel_readme.md").read_text()
    about = metadata("aotc", args.version, "Ahead-of-time compiler for PyTorch models: model.pt2 in, model.so and model.h out", ">=3.9", extra, text)
    return write(Path(args.output), "aotc", args.version, f"py3-none-{target}", files, about), why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["runtime", "compiler"])
    parser.add_argument("--package", help="the built package aotc_runtime")
    parser.add_argument("--prefix", help="an installation of aotc")
    parser.add_argument("--version", required=True)
    parser.add_argument("-o", "--output", required=True, help="folder for the wheel")
    args = parser.parse_args()
    needed = {"runtime": "package", "compiler": "prefix"}[args.kind]
    if not getattr(args, needed):
        parser.error(f"{args.kind} needs --{needed}")
    path, why = {"runtime": runtime, "compiler": compiler}[args.kind](args)
    print(path)
    print(f"{path.stat().st_size / 1e6:.2f} MB, {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
