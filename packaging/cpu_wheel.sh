#!/usr/bin/env bash
# cpu_wheel.sh PYTHON: the newest CPU wheel of torch that this Python's pip reaches (an index or find-links of its configuration) and that aotc
# is tried with, as pip wants it: "torch==2.13.0+cpu"; nothing where it reaches none. Without PYTHON: those that aotc is tried with,
# "torch>=2.11,<2.16".
set -euo pipefail
numbers=$(dirname "$0")/libtorch.cmake
oldest=$(sed -nE 's/^set\(AOTC_LIBTORCH_OLDEST ([0-9.]+)\)$/\1/p' "$numbers") newest=$(sed -nE 's/^set\(AOTC_LIBTORCH_NEWEST ([0-9.]+)\)$/\1/p' "$numbers")
if [ $# -eq 0 ]; then
  echo "torch>=$oldest,<${newest%.*}.$((${newest##*.} + 1))"
  exit
fi
{ "$1" -m pip index versions torch 2>/dev/null || true; } | { grep -oE '\b[0-9]+\.[0-9]+\.[0-9]+\+cpu\b' || true; } | sort -uVr | while read -r version; do
  minor=${version%.*}
  if [ "$(printf '%s\n' "$oldest" "$minor" "$newest" | sort -V | sed -n 2p)" = "$minor" ]; then
    echo "torch==$version"
    break
  fi
done
