#!/usr/bin/env bash
# Builds and runs every test.
set -euo pipefail
cd "$(dirname "$0")/.."
packaging/build.sh
ctest --test-dir build/release --output-on-failure -j "$(nproc)"
