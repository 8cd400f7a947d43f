#!/usr/bin/env bash
# samples/train: 100 steps of SGD in C beside PyTorch, on a net with batch norm and on a transformer.
# train_sample.sh AOTC PYTHON WORKDIR
set -euo pipefail
aotc=$1 python=$2 work=$3 sample=$(dirname "$0")/../../samples/train
mkdir -p "$work"
export AOTC_TEST_PARENT=${AOTC_TEST_PARENT:-$PPID}
make -s -B -C "$sample" OUT="$work"
for name in conv transformer; do
  "$python" -IS "$(dirname "$0")/../torch_process.py" "$sample/export.py" "$work" $name
  "$aotc" build "$work/$name.pt2" --parameters-as-states -o "$work/$name.so" --quiet
  "$work/train" "$work/$name.so" "$work/$name.batches" 100 0.05 "$work/$name.eager"
done
# Without states there is nothing to train.
"$aotc" build "$work/transformer.pt2" -o "$work/fixed.so" --quiet
if "$work/train" "$work/fixed.so" "$work/transformer.batches" 1 0.05 2> "$work/refused"; then exit 1; fi
grep -q -- --parameters-as-states "$work/refused"
