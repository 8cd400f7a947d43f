#!/bin/sh
# rootfs.sh OUT SERVER ARTIFACT...: OUT/root with the server, the shared libraries that it and the artifacts need, and the artifacts in /model.
# rootfs.sh OUT SERVER: a server that is linked statically, its artifact in it, and nothing else.
# Weights in a file of their own (ARTIFACT's name, or lib*.weights beside a static server) are left out: a volume has them. With WEIGHTS=1 they
# come along.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
root=$1/root server=$2
shift 2
[ ! -e "$root" ] || { echo "rootfs: $root is there already: remove it, or name another folder" >&2; exit 3; }
for f in "$server" "$@"; do [ -f "$f" ] || { echo "rootfs: there is no file $f" >&2; exit 6; }; done
static=$(readelf -l "$server" | grep -q INTERP || echo 1)
if [ "$static" ] && [ $# -gt 0 ]; then echo "rootfs: $server is linked statically, it loads no $1" >&2; exit 2; fi
if [ ! "$static" ] && [ $# -eq 0 ]; then echo "rootfs: $server needs an artifact" >&2; exit 2; fi
mkdir -p "$root"
cp "$server" "$root/server"
with() { # FILE FOLDER: the weights, or an empty file for a volume to be mounted over
  if [ "${WEIGHTS:-0}" = 1 ]; then cp "$1" "$2/"; else : >"$2/$(basename "$1")"; fi
}
if [ "$static" ]; then
  for weights in "$(dirname "$server")"/lib*.weights; do [ ! -f "$weights" ] || with "$weights" "$root"; done
else
  mkdir "$root/model"
  for artifact in "$@"; do
    cp "$artifact" "$root/model/"
    weights=${artifact%.so}.weights
    [ ! -f "$weights" ] || with "$weights" "$root/model"
  done
  # Paths as the loader finds them; the loader itself is among them. The vdso has none.
  ldd "$server" "$@" | grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r library; do
    case $library in *:) continue ;; esac
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done
  find "$root" -type f -name '*.so*' ! -path "$root/model/*" -exec strip --strip-unneeded {} + 2>/dev/null || true
fi
strip "$root/server" 2>/dev/null || true
du -ab "$root" | sort -n | sed "s|$root||" >&2
find "$root" -type f -printf '%s\n' | awk '{ n += $1 } END { printf "%.1f MB in the image\n", n / 1e6 }'
