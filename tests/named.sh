#!/bin/sh
# The READMEs name what there is: every pass and its parts, every kernel form, every kernel source.
cd "$(dirname "$0")/../compiler" || exit 1
status=0
named() { # named README NAME...
  readme=$1
  shift
  for name in "$@"; do
    grep -qF "\`$name\`" "$readme" || { echo "$readme does not name \`$name\`"; status=1; }
  done
}
stems() { for file in "$@"; do basename "${file%.*}"; done; }

named passes/README.md $(sed -nE 's/^AOTC_PASS\(([a-z0-9_]+),.*/\1/p' passes/passes.def) $(stems passes/*.h | grep -vxE 'passes|rewrite')
named kernels/cpu/README.md $(cd kernels/cpu && ls ./*.h | cut -c3-)
named kernels/cuda/README.md $(cd kernels/cuda && ls ./*.cuh | cut -c3-)
# A form's name is what name() returns, or what its instance of a class with several is given.
named forms/README.md $(sed -nE 's/.*name\(\) const (override|final) \{ return "([a-z0-9_]+)".*/\2/p; s/.*static const [A-Za-z]+ form\("([a-z0-9_]+)".*/\1/p; s/.*: LibraryForm\("([a-z0-9_]+)"\).*/\1/p' \
  forms/*.cpp forms/cpu/*.cpp forms/cuda/*.cpp)
exit $status
