#!/bin/sh
# rootfs.sh OUT SERVER ARTIFACT...: OUT/root with the server, the shared libraries that it and the artifacts need, and the artifacts in /model.
# NAME.weights beside an artifact is left out: a volume has it. With WEIGHTS=1 it comes along.
set -eu
[ $# -ge 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
root=$1/root server=$2
shift 2
[ ! -e "$root" ] || { echo "rootfs: $root is there already: remove it, or name another folder" >&2; exit 3; }
for f in "$server" "$@"; do [ -f "$f" ] || { echo "rootfs: there is no file $f" >&2; exit 6; }; done
mkdir -p "$root/model"
cp "$server" "$root/server"
for artifact in "$@"; do
  cp "$artifact" "$root/model/"
  weights=${artifact%.so}.weights
  if [ -f "$weights" ]; then
    if [ "${WEIGHTS:-0}" = 1 ]; then cp "$weights" "$root/model/"; else : >"$root/model/$(basename "$weights")"; fi
  fi
done
# Paths as the loader finds them; the loader itself is among them. The vdso has none.
ldd "$server" "$@" | grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r library; do
  case $library in *:) continue ;; esac
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
find "$root" -type f -name '*.so*' ! -path "$root/model/*" -exec strip --strip-unneeded {} + 2>/dev/null || true
strip "$root/server" 2>/dev/null || true
du -ab "$root" | sort -n | sed "s|$root||" >&2
find "$root" -type f -printf '%s\n' | awk '{ n += $1 } END { printf "%.1f MB in the image\n", n / 1e6 }'
