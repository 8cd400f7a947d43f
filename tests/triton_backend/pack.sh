#!/usr/bin/env bash
# pack.sh BUILD OUT SM [VERSION]: everything that tests/triton_backend and tests/bench/serving need on a machine with a GPU (SM: sm_90a; or cpu) that has Python VERSION (3.12) with
# NumPy, and nothing else: OUT/ and OUT.tar.xz. There: OUT/try.sh. Models that are in OUT already (work, served) are kept.
#   AOTC_VENV, AOTC_TRITON_VENV   as packaging/setup.sh makes them
# BUILD needs the targets aotc, aotc_triton, aotc_python_package, sample_server, bench_serving_load, bench_serving_steps,
# bench_serving_floor.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) out=$2 version=${4:-3.12} cuda=(--cuda "$3") nets="mlp minilm resnet50 decoder steps train"
[ "$3" = cpu ] && cuda=()
venv=${AOTC_VENV:-$HOME/.cache/aotc/venv} triton=${AOTC_TRITON_VENV:-$HOME/.cache/aotc/triton}
mkdir -p "$out"/{site,bin,backends/aotc,tests} && out=$(cd "$out" && pwd)
export VIRTUAL_ENV=$venv

# The server as its wheel has it, without its other backends and symbols.
packages=$("$triton/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$out/site/pytriton/tritonserver/bin" "$out/site/nvidia_pytriton.libs"
strip -o "$out/site/pytriton/tritonserver/bin/tritonserver" "$packages/pytriton/tritonserver/bin/tritonserver"
ldd "$packages/pytriton/tritonserver/bin/tritonserver" | grep -o '[^ ]*nvidia_pytriton.libs/[^ ]*' | xargs cp -Lt "$out/site/nvidia_pytriton.libs"

# The client for that Python.
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
platforms=$(for n in 5 17 24 27 28 34; do echo "--platform manylinux_2_${n}_x86_64"; done)
"$triton/bin/python" -m pip freeze | grep -iE '^(tritonclient|grpcio|protobuf|python-rapidjson|gevent|geventhttpclient|greenlet|zope\.event|zope\.interface|brotli|certifi|urllib3|typing_extensions|ml_dtypes)==' >"$wheels/wanted"
"$triton/bin/python" -m pip download -q --no-deps --only-binary=:all: --python-version "$version" --implementation cp $platforms --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d "$wheels" -r "$wheels/wanted"
for wheel in "$wheels"/*.whl; do "$triton/bin/python" -m zipfile -e "$wheel" "$out/site"; done

# The backend, services and clients; the tests and what they serve.
cp "$build/triton/aotc/libtriton_aotc.so" "$out/backends/aotc/"
cp "$build"/bin/{sample_server,bench_serving_load,bench_serving_steps} "$build/tests/bench/libtriton_floor.so" "$out/bin/"
cp -r "$build/python/aotc_runtime" "$out/site/"
cp "$here"/{served,server_test}.py "$here"/*_parts.py "$here/../bench/serving/serving.py" "$out/tests/"
cp "$here/try.sh" "$out/"
[ -d "$out/work" ] || "$venv/bin/python" "$here/make_models.py" --aotc "$build/bin/aotc" --work "$out/work" "${cuda[@]}"
[ -d "$out/served" ] || "$venv/bin/python" "$here/../bench/serving/models.py" --aotc "$build/bin/aotc" --work "$out/served" --cpu portable "${cuda[@]}" --on-gpu "${nets// /,}" $nets
find "$out/work" "$out/served" \( -name '*.pt2' -o -name '*.h' -o -name '*.report.json' \) -delete
[ "$3" = cpu ] || find "$out/served" -name '*.so' ! -name '*.cuda.so' -delete
tar -C "$(dirname "$out")" -c "$(basename "$out")" | xz -T0 -${XZ:-6} >"$out.tar.xz"
ls -l "$out.tar.xz"
