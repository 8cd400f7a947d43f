#!/usr/bin/env bash
# shared_header.sh WORK AOTC ARCHIVE: a program opens the artifact by the header of --header shared, with aotc's own headers beside it, and by
# the one of the default, with nothing beside it.
set -euo pipefail
mkdir -p "$1"
work=$(realpath "$1") aotc=$(realpath "$2") archive=$(realpath "$3")
cd "$(dirname "$0")/../.."
cat >"$work/main.c" <<'END'
#include "net.h"
int main(int argc, char** argv) {
  aotc_library lib;
  if (argc != 2 || net_library_open(argv[1], &lib) != AOTC_STATUS_OK) return 1;
  return aotc_api_revision(lib.api) == AOTC_ABI_REVISION ? 0 : 2;
}
END
for header in shared standalone; do
  "$aotc" build "$archive" -o "$work/net.so" --header $header --quiet
  found=$(grep -c '^#include "aotc/' "$work/net.h") || true
  [ "$found" = "$([ $header = shared ] && echo 1 || echo 0)" ] || { echo "$header: $found headers of aotc are included"; exit 1; }
  folder=()
  [ $header = standalone ] || folder=(-Iruntime/include)
  "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror "${folder[@]}" "$work/main.c" -o "$work/main" -ldl
  "$work/main" "$work/net.so"
done
