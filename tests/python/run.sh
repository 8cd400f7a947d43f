#!/usr/bin/env bash
# run.sh BUILD_DIR PYTHON WORK: the wheel aotc_runtime, made, held against what it has to be, installed into an environment that has numpy and
# no torch, and tried there and beside torch.
set -euo pipefail
build=$(realpath "$1") python=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$here/../..")
rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")
fail() { echo "aotc_runtime: $*"; exit 1; }
version=$(sed -nE 's/^project\(aotc VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")

make() { "$python" "$root/packaging/wheel.py" runtime --package "$build/python/aotc_runtime" --version "$version" -o "$1" 2>"$work/why.txt"; }
wheel=$(make "$work/wheels")
cmp "$wheel" "$(make "$work/again")" || fail "a second wheel of the same files has other bytes"
[ "$(basename "$wheel")" = "aotc_runtime-$version-cp39-abi3-manylinux_2_17_x86_64.whl" ] || fail "it is called $wheel ($(cat "$work/why.txt"))"
[ "$(stat -c %s "$wheel")" -lt 300000 ] || fail "it has $(stat -c %s "$wheel") bytes"

"$python" -m venv --without-pip "$work/venv"
site=$(ls -d "$work"/venv/lib/python3*/site-packages)
for package in numpy ml_dtypes; do
  folder=$("$python" -c "import $package, pathlib; print(pathlib.Path($package.__file__).parent)" 2>"$work/none.txt") || continue
  for part in "$folder" "$folder.libs"; do [ ! -d "$part" ] || ln -s "$part" "$site/"; done
done
"$python" -m pip --python "$work/venv/bin/python" install -q --no-index --no-deps "$wheel"
(cd "$work" && "$work/venv/bin/python" -c 'import aotc_runtime, pathlib; assert pathlib.Path(aotc_runtime.__file__).is_relative_to("'"$site"'"), aotc_runtime.__file__')

AOTC_TEST_PARENT=${AOTC_TEST_PARENT:-$PPID} "$python" -IS "$root/tests/torch_process.py" "$here/make_models.py" "$build/bin/aotc" "$work/models"
cd "$work"
unset PYTHONPATH
"$work/venv/bin/python" -X dev -W error "$here/runtime_test.py" models
PYTHONPATH=$site "$python" "$here/torch_test.py" models

"$python" -m pip --python "$work/venv/bin/python" uninstall -q -y aotc-runtime
[ ! -e "$site/aotc_runtime/__init__.py" ] || fail "uninstalling left files"
