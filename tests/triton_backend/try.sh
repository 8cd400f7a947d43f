#!/usr/bin/env bash
# try.sh [RESULTS]: what pack.sh packed, on this machine's GPU 0 (--cpu before RESULTS: without a GPU, of artifacts for CPUs): the parts of server_test.py, then requests a
# second behind Triton, over HTTP and gRPC, beside the plain service, with one, two and four instances, and what the servers themselves cost. Some eight minutes. Needs Python with
# NumPy.
#   SECONDS_A_ROW (2), ROUNDS (2), RELOADS (100), INSTANCES (1 2 4), MODELS (all)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
gpu=(--gpu) device=(--device 0)
[ "${1:-}" = --cpu ] && gpu=() device=() && shift
results=$(realpath -m "${1:-results}")
mkdir -p "$results"
export PYTHONPATH=$here/site PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
server=$here/site/pytriton/tritonserver/bin/tritonserver library=$here/backends/aotc/libtriton_aotc.so
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  nproc
  python3 "$here/tests/server_test.py" --library "$library" --work "$here/work" --runtime "$here/site" --reloads "${RELOADS:-100}" "${gpu[@]}"
  echo "server_test.py: $?"
} 2>&1 | tee "$results/parts.txt"
cp "$here/work/server.log" "$results/" 2>/dev/null
serve() { # ROWS OPTION..
  python3 "$here/tests/serving.py" --models "$here/served" --plain "$here/bin/sample_server" --steps "$here/bin/bench_serving_steps" --load "$here/bin/bench_serving_load" --triton "$server" \
    --backend "$library" "${device[@]}" --seconds "${SECONDS_A_ROW:-2}" --rounds "${ROUNDS:-2}" --out "$results/rows.$1.jsonl" "${@:2}"
  echo "serving.py: $?"
}
{
  for contexts in ${INSTANCES:-1 2 4}; do
    echo "instances: $contexts"
    serve "$contexts" --contexts "$contexts" --grpc ${MODELS:-}
  done
  echo "what the servers themselves cost"
  serve floor --contexts 1 --floor "$here/bin/libtriton_floor.so" mlp
  echo "without the server's batcher"
  serve alone --contexts 1 --clients 1 --batch 1 --parameter batching=off mlp minilm resnet50 decoder
} 2>&1 | tee "$results/throughput.txt"
