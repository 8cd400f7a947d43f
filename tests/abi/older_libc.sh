#!/usr/bin/env bash
# older_libc.sh WORK PROGRAM AOTC DEVICE MODEL...: PROGRAM (run_once.c, linked for the glibc floor) runs each artifact (a .so, or what AOTC
# makes of a .pt2) under the C library of Debian 11 (glibc 2.31) as under this machine's, and so does DEVICE (aotc-device). The library comes from the machine's own package mirror and
# stays in WORK; exit 77 where it cannot be had.
set -euo pipefail
work=$1 program=$2 aotc=$3 device=$4
shift 4
release=bullseye
skip() {
  echo "skipped: $1"
  exit 77
}
mkdir -p "$work"
root=$work/$release
if [ ! -e "$root/done" ]; then
  command -v apt-get dpkg-deb >/dev/null || skip "no apt-get here"
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 !~ /-/ && $3 == "main" && $1 ~ /debian\/?$/ {print $1; exit}')
  [ -n "$mirror" ] || skip "apt knows no Debian mirror (apt-get update)"
  rm -rf "$root"
  mkdir -p "$root"/{lists/partial,cache/archives/partial,state}
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -r $keys ] || skip "$keys is not there"
  echo "deb [signed-by=$keys] $mirror $release main" >"$root/sources.list"
  apt=(apt-get -q -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$root/state"
    -o Dir::State::lists="$root/lists" -o Dir::Cache="$root/cache" -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)"
    -o APT::Get::List-Cleanup=false)
  touch "$root/state/status"
  (cd "$root" && timeout 120 "${apt[@]}" -o Dir::State::status="$root/state/status" update &&
    timeout 120 "${apt[@]}" -o Dir::State::status="$root/state/status" download libc6:amd64) >"$work/apt.log" 2>&1 ||
    skip "libc6 of Debian $release is not to be had: $(tail -n 1 "$work/apt.log")"
  dpkg-deb -x "$root"/libc6_*.deb "$root"
  rm -rf "$root"/lists "$root"/cache
  touch "$root/done"
fi
libraries=$root/lib/x86_64-linux-gnu
loader=$(echo "$libraries"/ld-*.so)
here=$("$program" --glibc) there=$("$loader" --library-path "$libraries" "$program" --glibc)
[ "$here" != "$there" ] || { echo "both are glibc $here"; exit 1; }
# What aotc-device says, with its exit code: of a file that is not there (an exception), and of an artifact.
says() {
  local code=0
  "$@" || code=$?
  echo "exit code $code"
}
for words in "probe $work/none.so" "--help"; do
  says "$device" $words >"$work/here" 2>&1
  says "$loader" --library-path "$libraries" "$device" $words >"$work/there" 2>&1
  cmp "$work/here" "$work/there" || { cat "$work/here" "$work/there"; exit 1; }
done
for artifact in "$@"; do
  if [ "${artifact##*.}" = pt2 ]; then
    "$aotc" build "$artifact" -o "$work/$(basename "$artifact" .pt2).so" --quiet
    artifact=$work/$(basename "$artifact" .pt2).so
  fi
  "$program" "$artifact" >"$work/here" || { cat "$work/here"; exit 1; }
  "$loader" --library-path "$libraries" "$program" "$artifact" >"$work/there" || { cat "$work/there"; exit 1; }
  cmp "$work/here" "$work/there"
  says "$device" probe "$artifact" --json >"$work/here.probe" 2>&1
  says "$loader" --library-path "$libraries" "$device" probe "$artifact" --json >"$work/there.probe" 2>&1
  grep -q '"runs": true' "$work/here.probe" || { cat "$work/here.probe"; exit 1; }
  cmp "$work/here.probe" "$work/there.probe" || { cat "$work/there.probe"; exit 1; }
  echo "ok   $artifact: $(wc -l <"$work/here") lines under glibc $here and $there"
done
