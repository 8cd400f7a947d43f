#!/usr/bin/env bash
# From a fresh machine to an answer: installs, builds aotc, exports all-MiniLM-L6-v2, compiles it and runs model.so from a C program on two
# sentences.   quickstart.sh [OUTDIR]   (default: out/minilm)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/minilm}
packaging/build.sh aotc
venv=$(packaging/setup.sh | tail -n 1)
mkdir -p "$out"
export_it() { "$venv/bin/python" samples/minilm/export.py "$out" 2>"$out/export.log" || { cat "$out/export.log" >&2; return 1; }; }
[ -e "$out/minilm.pt2" ] || export_it
build/release/bin/aotc build "$out/minilm.pt2" --shapes "$out/minilm.shapes.json" -o "$out/minilm.so"
make -s -C samples/minilm OUT="$(realpath "$out")"
echo "--- libraries that the program and the artifact need"
ldd "$out/embed" "$out/minilm.so"
echo "--- two sentences"
"$out/embed" "$out/minilm.so" "$out/vocab.txt" "The compiler answers every request with the same latency." "Inference time stays constant from call to call."
