#!/usr/bin/env bash
# old_names.sh WORK TOY: programs with the names of before compile without a warning, as C11 and as C++17, and run; with AOTC_WARN_DEPRECATED
# each of those names warns and none of today's; nothing of aotc but that program uses them.
set -euo pipefail
export LC_ALL=C  # of the compilers' messages
mkdir -p "$1"
work=$(realpath "$1") toy=$(realpath "$2")
cd "$(dirname "$0")/../.."
fail() { echo "old_names: $*"; exit 1; }
cc=("${CC:-cc}" -std=c11 -D_POSIX_C_SOURCE=200809L)
cxx=("${CXX:-c++}" -std=c++17 -x c++)
flags=(-Wall -Wextra -Wpedantic -Iruntime/include)
old='AOTC_(OK|INVALID_ARGUMENT|SHAPE_MISMATCH|INCOMPATIBLE|NOT_FOUND|OUT_OF_MEMORY|WRONG_STATE|DEVICE|INTERNAL|INDEX_OUT_OF_RANGE|DAMAGED|DEVICE_LOST|ASSERTION_FAILED|CANCELLED|DEADLINE_EXCEEDED|IO|HOST|DEFAULT_DEVICE)'

"${cc[@]}" "${flags[@]}" -Werror tests/abi/old_names.c -o "$work/old_names_c" -ldl
"${cxx[@]}" "${flags[@]}" -Werror tests/abi/old_names.c -o "$work/old_names_cpp" -ldl
"${cxx[@]}" -std=c++20 "${flags[@]}" -Werror -fsyntax-only tests/abi/old_names.c
for program in old_names_c old_names_cpp; do "$work/$program" "$toy" || fail "$program"; done

for compiler in cc cxx; do
  declare -n compile=$compiler
  "${compile[@]}" "${flags[@]}" -DAOTC_WARN_DEPRECATED -fsyntax-only tests/abi/old_names.c 2>"$work/warnings"
  for name in $(grep -owE "$old|(method_)?output_shapes" tests/abi/old_names.c | sort -u); do
    grep -qE "[‘' :]$name('|’| |\)).*(deprecated|called)" "$work/warnings" || fail "$compiler: $name does not warn: $(cat "$work/warnings")"
  done
done
"${cc[@]}" "${flags[@]}" -DAOTC_WARN_DEPRECATED -Werror -fsyntax-only samples/c/run_model.c
"${cxx[@]}" "${flags[@]}" -DAOTC_WARN_DEPRECATED -Werror -fsyntax-only samples/cpp/serve.cpp

used=$(grep -rnwE "$old" cli compiler runtime samples tests --include='*.[ch]' --include='*.cpp' --include='*.hpp' --include='*.py' --include='*.go' --include='*.rs' --include='*.md' |
  grep -vE '^(runtime/include/aotc/aotc\.h|runtime/README\.md|tests/abi/(old_names|run_once|abi_layout)\.c):' | grep -v 'shell_completion.py AOTC AOTC_DEVICE ') || true
[ -z "$used" ] || fail "names of before: $used"
