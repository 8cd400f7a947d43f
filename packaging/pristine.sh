#!/usr/bin/env bash
# The README's two commands in a fresh Debian 12, as a new user's machine has it: debootstrap's minimal system, HEAD of this repository, nothing
# else. Run as root.   pristine.sh [--wheel cpu|cuda] [--root DIR] [--only quickstart|test] [--ccache DIR] [--keep]
#   --wheel    cuda (default): the torch that the package index has. cpu: a CPU wheel that this machine's pip reaches, named in AOTC_TORCH
#   --root     where the system is made (default: a new folder below TMPDIR); it takes 4 GB, with the CUDA build 9 GB
#   --only     one of the two commands
#   --ccache   a compile cache to share with the system; the times are then not those of a new machine
#   --keep     leaves the system there; given with the --root of an earlier run, goes on in it
# The machine's apt and pip configuration goes into the system (sources, certificates, indexes), except for folders of wheels on its own disk.
# The log's last lines are the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=cuda root= only= ccache= keep=
while [ $# -gt 0 ]; do
  case $1 in
    --wheel | --root | --only | --ccache) [ $# -ge 2 ] || { echo "pristine: $1 needs a value" >&2; exit 2; }; printf -v "${1#--}" %s "$2"; shift 2 ;;
    --keep) keep=1; shift ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
case $wheel in cpu | cuda) ;; *) echo "pristine: --wheel is cpu or cuda" >&2; exit 2 ;; esac
case $only in "" | quickstart | test) ;; *) echo "pristine: --only is quickstart or test" >&2; exit 2 ;; esac
[ "$(id -u)" -eq 0 ] || { echo "pristine: root is needed for chroot and mounts" >&2; exit 2; }
say() { echo "pristine: $*"; }
figures=()
timed() { # timed NAME COMMAND...
  local name=$1 start=$SECONDS status=0
  shift
  "$@" || status=$?
  figures+=("$name: $((SECONDS - start)) s, exit $status")
  return "$status"
}

root=${root:-$(mktemp -d "${TMPDIR:-/tmp}/aotc-pristine.XXXXXX")}
mkdir -p "$root"
root=$(realpath "$root")
mounts=()
finish() {
  local status=$?
  for ((i = ${#mounts[@]} - 1; i >= 0; --i)); do umount -l "${mounts[$i]}"; done
  if [ -d "$root/srv" ]; then figures+=("size of the system: $(du -smx "$root" | cut -f1) MB"); fi
  # Never through a mount that is still there.
  if [ -z "$keep" ] && ! grep -q " $root/" /proc/mounts; then rm -rf --one-file-system "$root"; fi
  say "--- figures (wheel: $wheel)"
  printf '%s\n' "${figures[@]}"
  exit "$status"
}
trap finish EXIT
bind() { # bind SOURCE TARGET_IN_ROOT
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  mounts+=("$root$2")
}

# The Debian sources that apt is configured with: "URI suite component"
sources() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' | awk '$4 == "Debian" { print $1, $2, $3 }'
}

if [ ! -e "$root/etc/debian_version" ]; then
  command -v debootstrap >/dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends debootstrap; } >/dev/null
  sources | grep -q . || apt-get update -q
  suite=bookworm
  mirror=$(sources | awk -v suite=$suite '$2 == suite && $3 == "main" { print $1; exit }')
  [ -n "$mirror" ] || { say "apt is configured with no source of $suite"; exit 1; }
  timed debootstrap debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.debootstrap.log" || { tail "$root.debootstrap.log"; exit 1; }
  rm -f "$root.debootstrap.log"

  # apt: the machine's Debian sources and settings; the archive's keys are part of the system
  sources | awk '{ print "deb", $1, $2, $3 }' >"$root/etc/apt/sources.list"
  for part in apt.conf.d auth.conf.d preferences.d; do [ -d /etc/apt/$part ] && cp -r "/etc/apt/$part" "$root/etc/apt/"; done
  rm -f "$root"/etc/apt/apt.conf.d/{20packagekit,50appstream} # they call programs that the system lacks
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

  # pip: indexes, certificates and time limits from its configuration and environment; what is on this machine's disk stays behind
  { echo "[global]"
    python3 -m pip config list | sed -nE "s/^(global|:env:)\.([a-z-]+)='(.*)'\$/\2 \3/p" | while read -r key value; do
      case $key in
        find-links | no-index) ;;
        cert) cp -L "$value" "$root/etc/pip-certificates.crt"; echo "cert = /etc/pip-certificates.crt" ;;
        constraint) ;; # a file of this machine
        index-url | extra-index-url)
          value=$(tr ' ' '\n' <<<"$value" | grep -vE '^(file:|/)' | paste -sd' ' || true)
          if [ -n "$value" ]; then echo "$key = $value"; fi ;;
        *) echo "$key = $value" ;;
      esac
    done | sort -u -t= -k1,1
  } >"$root/etc/pip.conf"
fi
mkdir -p "$root/srv/aotc" "$root/home/user"
git archive HEAD | tar -x -C "$root/srv/aotc"
say "$(git log -1 --format='%h %s'), Debian $(cat "$root/etc/debian_version"), in $root"

bind /proc /proc
bind /sys /sys
bind /dev /dev
bind /dev/pts /dev/pts # zsh's completion is tested in a terminal
settings=(HOME=/home/user TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
if [ -n "$ccache" ]; then
  bind "$ccache" /ccache
  settings+=(CCACHE_DIR=/ccache)
fi
if [ "$wheel" = cpu ]; then
  torch=$(packaging/cpu_wheel.sh python3)
  [ -n "$torch" ] || { say "this machine's pip reaches no CPU wheel of $(packaging/cpu_wheel.sh)"; exit 1; }
  mkdir -p "$root/wheels"
  [ -n "$(ls "$root/wheels")" ] || python3 -m pip download -q --no-deps -d "$root/wheels" "$torch"
  settings+=("AOTC_TORCH=/wheels/$(basename "$root"/wheels/torch-*.whl)")
fi
inside() { env -i "${settings[@]}" chroot "$root" /bin/sh -c "cd /srv/aotc && $1" </dev/null; }

[ "$only" = test ] || timed "packaging/quickstart.sh" inside packaging/quickstart.sh
[ "$only" = quickstart ] || timed "packaging/test.sh" inside packaging/test.sh
