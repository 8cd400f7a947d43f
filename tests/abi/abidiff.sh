#!/usr/bin/env bash
# abidiff.sh WORK: what an artifact exports, as the debug information of its one function has it, beside that of each version in stored/, by
# libabigail: structs grow at their end alone, those that callers have arrays of do not, and nothing else changes. Exit 77 (skipped) without
# abidiff (Debian: abigail-tools).
set -euo pipefail
command -v abidiff >/dev/null || { echo "abidiff is not installed"; exit 77; }
mkdir -p "$1"
work=$(realpath "$1")
cd "$(dirname "$0")"
fail() { echo "abidiff: $*"; exit 1; }

cat >"$work/exported.c" <<'END'
#include "aotc/aotc.h"
const aotc_api* aotc_get_api(uint32_t min_version) { return min_version ? NULL : NULL; }
END
# Of a report of abidiff what is more than structs that grow at their end.
cat >"$work/more.awk" <<'END'
/^$/ || / summary: / || /data member insertions?:$/ { next }
/^'struct aotc_(tensor|state_range|dim|profile_step)/ { print; next }
/^'struct [a-z_]+' changed:$/ { size = -1; next }
/^  type size changed from [0-9]+ to [0-9]+/ && $7 > $5 { size = $5; next }
/^    '.*', at offset [0-9]+ \(in bits\)$/ && size >= 0 && $(NF - 2) >= size { next }
{ print }
END

# of INCLUDE NAME: the object of these headers
of() { "${CC:-cc}" -std=gnu11 -g -O0 -shared -fPIC -I"$1" "$work/exported.c" -o "$work/$2.so"; }
# same OLD NEW: status 0, or what is not as it was
same() {
  local status=0
  abidiff --leaf-changes-only --no-show-locs "$work/$1.so" "$work/$2.so" >"$work/report" || status=$?
  case $status in 0 | 4) ;; *) cat "$work/report" && return 1 ;; esac
  awk -f "$work/more.awk" "$work/report" >"$work/more"
  cat "$work/more"
  [ ! -s "$work/more" ]
}

of ../../runtime/include now
versions=0
for folder in stored/*/; do
  version=$(basename "$folder")
  rm -rf "$work/$version"
  mkdir "$work/$version"
  tar -xzf "$folder/headers.tar.gz" -C "$work/$version"
  of "$work/$version" "$version"
  what=$(same "$version" now) || fail "the ABI of $version has changed: $what"
  versions=$((versions + 1))
done
[ "$versions" -gt 0 ] || fail "nothing is stored"

# changed NAME EXPRESSION yes|no: whether a change of the header passes
changed() {
  rm -rf "$work/include"
  mkdir "$work/include"
  cp -r ../../runtime/include/aotc "$work/include/"
  sed -i "$2" "$work/include/aotc/aotc.h"
  ! cmp -s ../../runtime/include/aotc/aotc.h "$work/include/aotc/aotc.h" || fail "$1: the header does not have that any more"
  of "$work/include" "$1"
  if what=$(same now "$1"); then passed=yes; else passed=no; fi
  [ "$passed" = "$3" ] || fail "$1: passes: $passed, should: $3; $what"
}
changed longer_table 's/^} aotc_api;/  aotc_status (*more)(aotc_model* model);\n&/' yes
changed longer_struct 's/^} aotc_run_options;/  int64_t more;\n&/' yes
changed shorter_table '/(\*synchronize)(aotc_context\* context);/d' no
changed other_argument 's/(\*probe)(int32_t device)/(*probe)(int64_t device)/' no
changed other_field 's/uint64_t deadline_ns;/uint32_t deadline_ns;/' no
changed inserted_field 's/uint64_t deadline_ns;/int64_t more; &/' no
changed longer_tensor 's/uint64_t reserved\[2\];/uint64_t reserved[4];/; s/sizeof(aotc_tensor) == 64/1/' no
changed longer_tensor_field 's/^} aotc_tensor;/  int64_t more;\n&/; s/sizeof(aotc_tensor) == 64/1/' no
echo "$versions versions"
