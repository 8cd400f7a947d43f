#!/usr/bin/env bash
# Builds the developers' presets, which compile sources one by one, and runs what their sanitizers are for: damaged archives under AddressSanitizer
# and UBSan, the ABI's threads under ThreadSanitizer. Hours on two cores; not part of test.sh.   presets.sh [dev|asan|tsan ...]   (default: all)
#   AOTC_TARGETS   build these alone ("archive_fuzz")
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(packaging/setup.sh | tail -n 1)
[ $# -gt 0 ] || set -- dev asan tsan
for preset in "$@"; do
  case $preset in dev | asan | tsan) ;; *) echo "presets: no preset '$preset': expected dev, asan, tsan" >&2; exit 2 ;; esac
done
for preset in "$@"; do
  cmake --preset "$preset" -DAOTC_PYTHON="$venv/bin/python" >/dev/null
  # shellcheck disable=SC2086 # words
  cmake --build --preset "$preset" ${AOTC_TARGETS:+--target $AOTC_TARGETS}
  [ "$preset" = dev ] || ctest --preset "$preset"
done
