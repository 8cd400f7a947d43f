#!/bin/sh
# needed_order.sh PROGRAM: PROGRAM names libstdc++ before any library of LibTorch. Some LibTorch builds export parts of an old libstdc++;
# named first, they would take over std::filesystem or std::regex of the program.
readelf -d "$1" | awk '
  /NEEDED/ && /libstdc\+\+/ { found = 1 }
  /NEEDED/ && /lib(torch|c10)/ { torch = 1; if (!found) bad = 1 }
  END {
    if (!torch) { print "no library of LibTorch is needed: nothing was tested"; exit 1 }
    if (bad) { print "LibTorch is named before libstdc++"; exit 1 }
  }'
