#!/usr/bin/env bash
# run.sh AOTC LIBRARY PYTHON WORK [--driver DIR] [--runtime DIR] [--nvtx LIBRARY]: models made beside torch, served by the backend in tritonserver. 77: the server's environment is not there.
#   AOTC_TRITON_VENV   that environment (default: ~/.cache/aotc/triton, which packaging/setup.sh makes)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
served=${AOTC_TRITON_VENV:-$HOME/.cache/aotc/triton}/bin/python
[ -x "$served" ] || { echo "there is no $served (packaging/setup.sh makes it): skipped"; exit 77; }
rm -rf "$4"
mkdir -p "$4"
gpu=() driver=
[[ " $* " =~ " --driver "([^ ]+) ]] && driver=${BASH_REMATCH[1]}
[ -e "$driver/../libhost_nvrtc.so" ] && gpu=(--gpu "$driver/../libhost_nvrtc.so")
AOTC_TEST_PARENT=${AOTC_TEST_PARENT:-$PPID} "$3" -IS "$here/../torch_process.py" "$here/make_models.py" --aotc "$1" --work "$4" "${gpu[@]}"
exec "$served" "$here/server_test.py" --library "$2" --work "$4" "${@:5}"
