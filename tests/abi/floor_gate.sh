#!/bin/sh
# floor_gate.sh [--libstdc++] PROGRAM...: programs for machines that only run artifacts need no more of the system than artifacts do, by readelf alone.
# Prints each fault; exits 1 when there is one.
faults=0
fault() {
  echo "$1" >&2
  faults=$((faults + 1))
}
shared='' # with --libstdc++ the C++ library's own are there too
if [ "${1:-}" = --libstdc++ ]; then
  shared='libstdc++.so.6 libgcc_s.so.1'
  shift
fi
for program in "$@"; do
  versions=$(readelf -W -V "$program" | sed -n 's/.*Name: \(GLIBC_[^ ]*\) .*/\1/p')
  [ -n "$versions" ] || fault "$program: asks for no version of the C library"
  newest=$(printf '%s\n' "$versions" | sort -V | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] || fault "$program: needs $newest; GLIBC_2.17 is the floor"
  for library in $(readelf -W -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
      libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2 | libpthread.so.0 | libdl.so.2) ;;
      *) case " $shared " in *" $library "*) ;; *) fault "$program: needs $library" ;; esac ;;
    esac
  done
  for pair in pthread_create:libpthread.so.0 dlopen:libdl.so.2; do
    readelf -W --dyn-syms "$program" | grep -q " ${pair%%:*}@" || continue
    readelf -W -d "$program" | grep -q "\[${pair##*:}\]" || fault "$program: uses ${pair%%:*} without ${pair##*:}, where older glibc has it"
  done
done
for program in "$@"; do
  # The stand-ins do not know that the C library calls it __environ too.
  readelf -W -r "$program" | grep -q "R_X86_64_COPY.* environ@" && fault "$program: has a copy of environ, which the C library does not fill"
done
[ "$faults" -eq 0 ]
