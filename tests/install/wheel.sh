#!/usr/bin/env bash
# wheel.sh BUILD_DIR PYTHON WORK: the wheel of the compiler, installed into an environment that has torch, builds and verifies the first sample
# there, serves a CMake project by find_package with no more than PATH, names what is missing, and is removed whole.
set -euo pipefail
build=$(realpath "$1") python=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$here/../..")
rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")
fail() { echo "wheel: $*"; exit 1; }
unset AOTC_LIBTORCH VIRTUAL_ENV PYTHONPATH
version=$(sed -nE 's/^project\(aotc VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")

cmake --install "$build" --prefix "$work/prefix" --component aotc --strip >"$work/install.log"
wheel=$("$python" "$root/packaging/wheel.py" compiler --prefix "$work/prefix" --version "$version" -o "$work/wheels" 2>"$work/why.txt") || fail "$(cat "$work/why.txt")"
"$python" - "$wheel" "$version" <<'PY'
import base64, csv, hashlib, io, sys, zipfile
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename
name, version, _, tags = parse_wheel_filename(sys.argv[1].rsplit("/", 1)[-1])
(tag,) = tags
assert (str(name), str(version), tag.interpreter, tag.abi) == ("aotc", sys.argv[2], "py3", "none"), (name, version, tag)
assert int(tag.platform.split("_")[2]) <= 28, f"{tag}: manylinux_2_28 or older was to be"
wheel = zipfile.ZipFile(sys.argv[1])
info = f"aotc-{version}.dist-info"
metadata = Metadata.from_email(wheel.read(f"{info}/METADATA"))
assert metadata.license_expression == "Apache-2.0" and metadata.license_files == ["LICENSE"], metadata
assert str(metadata.requires_dist[0]) == 'torch<2.16,>=2.11; extra == "torch"', metadata.requires_dist
rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode()))}
assert set(rows) == set(wheel.namelist())
for path, (digest, size) in rows.items():
    data = wheel.read(path)
    if not path.endswith("/RECORD"):
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() and int(size) == len(data), path
for path in ("scripts/aotc", "scripts/aotc-device", "data/lib/aotc/libaotc_torch.so", "data/lib/cmake/aotc/aotcConfig.cmake", "data/include/aotc/aotc.h"):
    assert f"aotc-{version}.data/{path}" in rows, path
assert not any(p.endswith("libtorch.path") for p in rows)
PY

"$python" -m venv --without-pip "$work/venv"
site=$(ls -d "$work"/venv/lib/python3*/site-packages)
bin=$work/venv/bin
(cd "$work/venv" && find . ! -type d | sort) >"$work/before"
"$python" -m pip --python "$bin/python" install -q --no-index --no-deps "$wheel"
(cd "$work" && AOTC_TEST_PARENT=${AOTC_TEST_PARENT:-$PPID} "$python" -IS "$root/tests/torch_process.py" "$root/samples/first/net.py") >"$work/export.log" 2>&1 || fail "$(cat "$work/export.log")"
says() { # says TEXT COMMAND...: fails, and says that
  local text=$1 status=0
  shift
  "$@" >"$work/said" 2>&1 || status=$?
  [ "$status" -eq 5 ] && grep -q -- "$text" "$work/said" || fail "expected '$text' of $*, exit $status: $(cat "$work/said")"
}
plain() { env -i HOME="$work" PATH=/usr/bin:/bin "$@"; }
shapes=$root/samples/first/net.shapes.json
says "pip install torch==2" plain "$bin/aotc" build "$work/net.pt2" -o "$work/none.so"
mkdir -p "$site/torch/lib"
echo "__version__ = '2.9.0'" >"$site/torch/version.py"
touch "$site/torch/lib/libtorch_cpu.so"
says "the environment of this aotc.*LibTorch 2.9.0; 2.11 or later is needed" plain "$bin/aotc" build "$work/net.pt2" -o "$work/none.so"
rm -r "$site/torch"
ln -s "$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')" "$site/torch"
mkdir "$work/empty"
says "no C++ compiler that serves was found" env -i HOME="$work" XDG_CACHE_HOME="$work/cold" PATH="$work/empty" "$bin/aotc" build "$work/net.pt2" -o "$work/none.so"
grep -q "g++" "$work/said" || fail "g++ is not named: $(cat "$work/said")"

# The environment is not active: torch is found beside aotc.
plain "$bin/aotc" build "$work/net.pt2" --shapes "$shapes" -o "$work/net.so" --quiet
plain "$bin/aotc" verify "$work/net.so" --against "$work/net.pt2" --quiet >"$work/verify.txt"
plain "$bin/aotc-device" probe "$work/net.so" >"$work/probe.txt"
cp "$root/samples/first/main.c" "$work/"
(cd "$work" && cc main.c -o main -ldl -I"$work/venv/include" && ./main) >"$work/answers.txt"
grep -q "0.2991 0.3789 0.3220" "$work/answers.txt" || fail "the first sample says: $(cat "$work/answers.txt")"

# CMake looks beside each bin of PATH.
env PATH="$bin:$PATH" cmake -S "$here/consumer" -B "$work/out" -DMODEL="$root/tests/e2e/archives/torch_2_11_cuda_dynamic_decomposed.pt2" \
  -DSHAPES="$here/consumer/shapes.json" >"$work/cmake.log"
grep -q "aotc_DIR:PATH=$work/venv/lib/cmake/aotc" "$work/out/CMakeCache.txt" || fail "CMake took another aotc: $(grep aotc_DIR "$work/out/CMakeCache.txt")"
cmake --build "$work/out" >"$work/build.log" || fail "$(tail "$work/build.log")"
"$work/out/use_c" >"$work/c.txt" || fail "use_c: $(tail -n 1 "$work/c.txt")"

rm "$site/torch"
"$python" -m pip --python "$bin/python" uninstall -q -y aotc
(cd "$work/venv" && find . ! -type d ! -path '*/__pycache__/*' | sort) | diff "$work/before" - || fail "uninstalling left files"
rm -rf "$work/wheels" "$work/prefix"
