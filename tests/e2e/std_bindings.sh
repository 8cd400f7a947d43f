#!/bin/sh
# std_bindings.sh PROGRAM: nothing of the standard library that PROGRAM uses is bound to a library of LibTorch, some builds of which export
# parts of an old libstdc++.
LD_BIND_NOW=1 LD_DEBUG=bindings "$1" --version 2>&1 | awk -v program="$1" '
  index($0, "binding file " program " ") && /normal symbol/ {
    ++all
    if ($0 ~ /to [^ ]*lib(torch|c10)[^ ]* .*symbol `_Z(N|NK|T[ISV]|TIN)?St/) { print; bad = 1 }
  }
  END {
    if (all < 100) { print "only " all + 0 " bindings were seen: nothing was tested"; exit 1 }
    exit bad
  }'
