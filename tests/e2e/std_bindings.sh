#!/bin/sh
# std_bindings.sh PROGRAM ARCHIVE: nothing of the standard library that PROGRAM and its libaotc_torch.so use is bound to a library of LibTorch, some
# builds of which export parts of an old libstdc++. Looking for users' operators, in ARCHIVE in vain, loads LibTorch.
LD_BIND_NOW=1 LD_DEBUG=bindings "$1" build "$2" --torch-library "$2" 2>&1 | awk -v program="$1" '
  (index($0, "binding file " program " ") || /binding file [^ ]*libaotc_torch.so /) && /normal symbol/ {
    ++all
    if (/binding file [^ ]*libaotc_torch.so /) ++side
    if ($0 ~ /to [^ ]*lib(torch|c10)[^ ]* .*symbol `_Z(N|NK|T[ISV]|TIN)?St/) { print; bad = 1 }
  }
  END {
    if (all < 100 || side < 100) { print "only " all + 0 " bindings were seen, " side + 0 " of libaotc_torch.so: nothing was tested"; exit 1 }
    exit bad
  }'
