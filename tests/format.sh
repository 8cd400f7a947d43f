#!/bin/sh
# Every C++ file is as clang-format 14 (Debian 12) leaves it. Exit 77 (skipped) without that version.
cd "$(dirname "$0")/.." || exit 1
clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "clang-format 14 is not installed"; exit 77; }
find cli compiler runtime tests samples \( -name '*.cpp' -o -name '*.h' -o -name '*.hpp' \) -print0 |
  xargs -0 clang-format --dry-run --Werror
