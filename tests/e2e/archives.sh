#!/bin/sh
# archives.sh AOTC WORK PYTHON FILE...: archives written by other versions of torch, on other devices, and those that archives/make.py writes with
# this torch, are built and verified.
set -e
aotc=$1 work=$2 python=$3
shift 3
mkdir -p "$work"
rm -f "$work"/*.pt2
export AOTC_TEST_PARENT=${AOTC_TEST_PARENT:-$PPID}
"$python" -IS "$(dirname "$0")/../torch_process.py" "$(dirname "$0")/archives/make.py" "$work"
for file in "$@" "$work"/*.pt2; do
  so=$work/$(basename "$file" .pt2).so
  "$aotc" build "$file" -o "$so" --quiet
  "$aotc" verify "$so" --against "$file" --samples 2 2>"$work/said.txt" || { cat "$work/said.txt"; exit 1; }
  if grep 'warning: .* torch\|warning: LibTorch' "$work/said.txt"; then exit 1; fi
done
