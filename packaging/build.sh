#!/usr/bin/env bash
# Configures and builds (release preset) against the environment that setup.sh made.   build.sh [TARGET ...]   (default: everything)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(packaging/setup.sh | tail -n 1)
cmake --preset release -DAOTC_PYTHON="$venv/bin/python" >/dev/null
cmake --build --preset release ${@:+--target "$@"}
