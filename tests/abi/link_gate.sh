#!/bin/sh
# link_gate.sh ARTIFACT...: what every model.so must be, by readelf and objdump alone. Prints each fault; exits 1 when there is one.
faults=0
fault() {
  echo "$so: $1" >&2
  faults=$((faults + 1))
}
for so in "$@"; do
  [ -r "$so" ] || { fault "cannot be read"; continue; }
  dynamic=$(readelf -W -d "$so")
  segments=$(readelf -W -l "$so")
  symbols=$(readelf -W --dyn-syms "$so")

  exported=$(echo "$symbols" | awk '$7 != "UND" && ($5 == "GLOBAL" || $5 == "WEAK" || $5 == "UNIQUE") && $4 != "NOTYPE" {sub(/@.*/, "", $8); print $8}' | sort -u | tr '\n' ' ')
  [ "$exported" = "aotc_get_api " ] || fault "exports '$exported', not aotc_get_api alone"
  echo "$symbols" | grep -q ' UNIQUE ' && fault "has GNU_UNIQUE symbols"
  undefined=$(echo "$symbols" | awk '$7 == "UND" && $8 ~ /^_Z|^__cxa_(throw|begin_catch|guard)|^__gxx|^_Unwind|^GOMP|^omp_/ {print $8}' | tr '\n' ' ')
  [ -z "$undefined" ] || fault "needs symbols of the host: $undefined"

  for library in $(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
      libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2 | libpthread.so.0 | libdl.so.2) ;;
      *) fault "needs $library" ;;
    esac
  done
  # Of the C library: what glibc 2.17 has, from the library that has it there (one libc.so.6 has it all since 2.34).
  newest=$(readelf -W -V "$so" | sed -n 's/.*Name: \([^ ]*\) .*/\1/p' | sort -V | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.17\n' "${newest:-GLIBC_2.17}" | sort -V | tail -n 1)" = GLIBC_2.17 ] || fault "needs $newest; GLIBC_2.17 is the floor"
  for pair in pthread_create:libpthread.so.0 dlopen:libdl.so.2; do
    echo "$symbols" | grep -q " ${pair%%:*}@" || continue
    echo "$dynamic" | grep -q "\[${pair##*:}\]" || fault "uses ${pair%%:*} without ${pair##*:}, where older glibc has it"
  done
  size=$(echo "$dynamic" | sed -n 's/.*(INIT_ARRAYSZ) *\([0-9]*\).*/\1/p')
  [ "${size:-0}" -le 8 ] || fault "has an init_array of $size bytes: a static constructor"
  echo "$dynamic" | grep -q 'TEXTREL' && fault "has text relocations"
  echo "$dynamic" | grep -q 'RPATH\|RUNPATH' && fault "has a run path"
  echo "$dynamic" | grep -q 'BIND_NOW\|Flags:.*NOW' || fault "is not bound at load (-z now)"
  echo "$dynamic" | grep -q 'SYMBOLIC' || fault "is not linked with -Bsymbolic"
  echo "$segments" | grep -q 'GNU_RELRO' || fault "has no RELRO segment"
  echo "$segments" | grep 'GNU_STACK' | grep -q 'RWE' && fault "has an executable stack"
  echo "$segments" | grep -q 'GNU_STACK' || fault "does not say that its stack is not executable"
  echo "$segments" | grep ' LOAD ' | grep -q 'RWE' && fault "has a segment that is both writable and executable"
  # Frames: `sub $0x4000,%rsp` and more, or the end of a frame that is touched page by page.
  frames=$(objdump -d --no-show-raw-insn "$so" | grep -E 'sub +\$0x([4-9a-f][0-9a-f]{3}|[1-9a-f][0-9a-f]{4,6}),%rsp|lea +-0x([4-9a-f][0-9a-f]{3}|[1-9a-f][0-9a-f]{4,6})\(%rsp\),%r1[01]')
  [ -z "$frames" ] || fault "has functions that take more than 16 KB of stack: $frames"
  notes=$(readelf -W -n "$so")
  echo "$notes" | grep -q 'Build ID' || fault "has no build-id"
  probes=$(echo "$notes" | sed -n 's/^ *Name: //p' | sort | tr '\n' ' ')
  [ "$probes" = "run__end run__start step__end step__start " ] || fault "has the probes '$probes'"
done
[ "$faults" -eq 0 ]
