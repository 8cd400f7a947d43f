#!/usr/bin/env bash
# stored.sh WORK LAYOUT RUN_ONCE AOTC_DEVICE AOTC ARCHIVE: the promise of compatibility (packaging/README.md), held by what stored/ has of each version:
# the layout of the ABI has every line that it had (abi_layout.c); its artifact loads, runs and is described today; a program compiled with its
# headers runs today's artifacts.
#   a new version:  abi_layout >stored/VERSION/layout.txt; an artifact (--cpu portable), gzip -9n, and what run_once says of it; its headers
set -euo pipefail
mkdir -p "$1"
work=$(realpath "$1") layout=$(realpath "$2") run_once=$(realpath "$3") device=$(realpath "$4") aotc=$(realpath "$5") archive=$(realpath "$6")
cd "$(dirname "$0")"
fail() { echo "stored: $*"; exit 1; }
new=$work/new.so
"$aotc" build "$archive" -o "$new" --quiet
"$layout" | sort >"$work/layout"
versions=0
for folder in stored/*/; do
  version=$(basename "$folder")
  at=$work/$version
  rm -rf "$at"
  mkdir -p "$at"
  sort "$folder/layout.txt" >"$at/layout"
  gone=$(comm -23 "$at/layout" "$work/layout")
  [ -z "$gone" ] || fail "of version $version this has changed: $gone"

  for stored in "$folder"/*.so.gz; do
    name=$(basename "$stored" .so.gz)
    gzip -dc "$stored" >"$at/$name.so"
    "$run_once" "$at/$name.so" >"$at/$name.txt" || fail "the artifact of $version: $(cat "$at/$name.txt")"
    cmp "$folder/$name.txt" "$at/$name.txt" || fail "the artifact of $version gives other results"
    "$device" probe "$at/$name.so" >"$at/probe" || fail "aotc-device and the artifact of $version: $(cat "$at/probe")"
  done

  mkdir "$at/include"
  tar -xzf "$folder/headers.tar.gz" -C "$at/include"
  "${CC:-cc}" -std=gnu11 -I"$at/include" run_once.c -o "$at/run_once" -ldl
  "$at/run_once" "$new" >"$at/new.txt" || fail "a program of $version and today's artifact: $(cat "$at/new.txt")"
  "$run_once" "$new" | cmp - "$at/new.txt" || fail "a program of $version reads other results of today's artifact"
  versions=$((versions + 1))
done
[ "$versions" -gt 0 ] || fail "nothing is stored"
echo "$versions versions"
