#!/usr/bin/env bash
# Builds and runs every test, and says what this machine could not run and which parts of long lists were taken: another part with each
# commit (tests/thirds.py). ctest's closing lines come last.
#   AOTC_TEST_ALL=1   all of the lists
set -euo pipefail
cd "$(dirname "$0")/.."
packaging/build.sh
log=build/release/Testing/ctest.log
mkdir -p "$(dirname "$log")"
failed=0
ctest --test-dir build/release --output-on-failure -j "$(nproc)" | tee "$log" || failed=$?
told=$(sed -n 's/^thirds: //p' build/release/Testing/Temporary/LastTest.log)
# The test kernels_cpu_lacking takes an instruction set away on purpose.
lacking=$(awk '/ Testing: / {test = $NF} test != "kernels_cpu_lacking" && /^[a-z_]+: .* not run here: /' build/release/Testing/Temporary/LastTest.log | sort -u)
if [ -n "$lacking$told" ]; then
  [ -z "$lacking" ] || echo "$lacking"
  [ -z "$told" ] || echo "$told"
  sed -n '/% tests passed/,$p' "$log"
fi
exit "$failed"
