#!/bin/sh
# archives.sh AOTC WORK FILE...: archives written by other versions of torch, on other devices, are built and verified.
set -e
aotc=$1 work=$2
shift 2
mkdir -p "$work"
for file in "$@"; do
  so=$work/$(basename "$file" .pt2).so
  "$aotc" build "$file" -o "$so" --quiet
  "$aotc" verify "$so" --against "$file" --samples 2 2>/dev/null
done
