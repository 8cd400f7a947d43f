#!/usr/bin/env bash
# Every package from a clean clone of HEAD, and each installed into an empty system where it builds or runs the first sample.
#   packages.sh [--roots DIR] [--only build|check] OUT
#   OUT        gets aotc-*.whl, aotc_runtime-*.whl, aotc_*_amd64.deb, aotc-*-Linux.tar.gz
#   --only     build: no root is needed for it. check: what OUT has, in the systems; run as root
#   --roots    where the systems are made and left for the next run (default: a new folder below TMPDIR, removed at the end); 2 GB
# Debian 12: the .deb by apt, the wheel by pip, the archive unpacked; each compiles the sample with the LibTorch of this machine, mounted there.
# Debian 11 (glibc 2.31, Python 3.9): the artifacts of Debian 12 by aotc-device and by aotc_runtime's wheel.
# Uses this machine's apt configuration. The last lines say what was installed where.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
only= roots= out=
while [ $# -gt 0 ]; do
  case $1 in
    --roots | --only) [ $# -ge 2 ] || usage; printf -v "${1#--}" %s "$2"; shift 2 ;;
    -*) usage ;;
    *) [ -z "$out" ] || usage; out=$1; shift ;;
  esac
done
case $only in "" | build | check) ;; *) usage ;; esac
[ -n "$out" ] || usage
mkdir -p "$out"
out=$(realpath "$out")
here=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/aotc-packages.XXXXXX")
keep=${roots:+1}
roots=${roots:-$work/roots}
mkdir -p "$roots"
roots=$(realpath "$roots")
mounts=() done_lines=()
say() { echo "packages: $*"; }
finish() {
  local status=$?
  for ((i = ${#mounts[@]} - 1; i >= 0; --i)); do umount -l "${mounts[$i]}"; done
  # Never through a mount that is still there.
  if ! grep -q " $work/" /proc/mounts; then rm -rf --one-file-system "$work"; fi
  [ -n "$keep" ] && [ "$status" -ne 0 ] && say "the systems are left in $roots"
  printf '%s\n' "${done_lines[@]+"${done_lines[@]}"}"
  exit "$status"
}
trap finish EXIT

venv=$(packaging/setup.sh | tail -n 1)
if [ "$only" != check ]; then
  git clone -q --no-hardlinks --single-branch "$here" "$work/clone"
  say "$(git -C "$work/clone" log -1 --format='%h %s')"
  (cd "$work/clone" && cmake --preset release -DAOTC_PYTHON="$venv/bin/python" -DAOTC_TESTS=OFF && cmake --build build/release --target aotc aotc-device wheels &&
    cpack --config build/release/CPackConfig.cmake) >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
  for kind in 'aotc-*.whl' 'aotc_runtime-*.whl' 'aotc_*_amd64.deb' 'aotc-*-Linux.tar.gz'; do
    rm -f "$out"/$kind
    cp "$work"/clone/build/release/packages/$kind "$out/"
  done
  done_lines+=("built from a clean clone: $(cd "$out" && du -h --apparent-size aotc* | awk '{ printf "%s %s; ", $2, $1 }')")
fi
[ "$only" != build ] || exit 0

[ "$(id -u)" -eq 0 ] || { say "root is needed for chroot and mounts"; exit 2; }
command -v debootstrap >/dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends debootstrap; } >/dev/null
mirror() { apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' | awk '$4 == "Debian" && $3 == "main" && $2 !~ /-/ { print $1; exit }'; }
[ -n "$(mirror)" ] || apt-get update -q
bind() { # bind SOURCE TARGET
  mkdir -p "$2"
  mount --bind "$1" "$2"
  mounts+=("$2")
}
make_root() { # make_root SUITE PACKAGE...: $roots/SUITE
  local suite=$1 root=$roots/$1
  shift
  if [ ! -e "$root/ready" ]; then
    debootstrap --variant=minbase --include="$(IFS=,; echo "$*")" "$suite" "$root" "$(mirror)" >"$work/$suite.log" 2>&1 || { tail "$work/$suite.log"; exit 1; }
    for part in apt.conf.d auth.conf.d preferences.d; do [ ! -d /etc/apt/$part ] || cp -r "/etc/apt/$part" "$root/etc/apt/"; done
    rm -f "$root"/etc/apt/apt.conf.d/{20packagekit,50appstream} # they call programs that the system lacks
    touch "$root/ready"
  fi
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  for folder in proc sys dev; do bind /$folder "$root/$folder"; done
  bind "$out" "$root/packages"
  rm -rf "$root/try"
  mkdir "$root/try"
}
inside() { # inside SUITE COMMAND
  env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive AOTC_LIBTORCH="${libtorch:-}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$roots/$1" /bin/sh -ec "cd /try && $2" </dev/null || { say "in $1: $2"; exit 1; }
}
passed() { done_lines+=("ok   $1"); say "ok   $1"; }
expected="0.2991 0.3789 0.3220"
build_sample() { # build_sample SUITE AOTC FOLDER-OF-HEADERS: there, in C
  inside "$1" "rm -rf sample && mkdir sample && cd sample && cp ../net.pt2 ../net.shapes.json ../main.c . && $2 build net.pt2 --shapes net.shapes.json --cpu portable --quiet &&
    $2 verify net.so --against net.pt2 --quiet && cc main.c -o main -ldl -I$3 && ./main | tee answers && grep -q '$expected' answers"
}

(cd "$work" && "$venv/bin/python" "$here/samples/first/net.py") >"$work/export.log" 2>&1 || { cat "$work/export.log"; exit 1; }
torch=$("$venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
fill() { cp "$work/net.pt2" samples/first/net.shapes.json samples/first/main.c "$roots/$1/try/"; }
cat >"$work/run.py" <<'PY'
import sys
import numpy as np
import aotc_runtime
assert "torch" not in sys.modules
x = np.zeros((2, 8), np.float32)
x[0, 0] = x[1, 1] = 1
model = aotc_runtime.load("/try/net.so")
y, = model.context().run([x])
np.save(model.inputs[0].name + ".npy", x)
print("%.4f %.4f %.4f" % tuple(y[0]), "Python", sys.version.split()[0], "NumPy", np.__version__)
PY

make_root bookworm ca-certificates python3-venv python3-pip python3-numpy
bind "$torch" "$roots/bookworm/opt/torch"
fill bookworm
inside bookworm "apt-get update -q >/try/apt.log && apt-get install -y -q /packages/$(basename "$out"/aotc_*_amd64.deb) >>/try/apt.log 2>&1 || { tail -n 20 /try/apt.log; false; }"
libtorch=/opt/torch build_sample bookworm aotc /usr/include
inside bookworm "aotc --version --json >/dev/null && test -e /usr/share/man/man1/aotc.1.gz -o -e /usr/share/man/man1/aotc.1 && aotc-device probe sample/net.so"
cp "$roots/bookworm/try/sample/net.so" "$work/net.so"
inside bookworm "apt-get purge -y -q aotc >>/try/apt.log 2>&1 && ! command -v aotc"
passed "Debian 12: apt install ./aotc.deb, the sample in C, apt purge"
inside bookworm "rm -rf tgz && mkdir tgz && tar xzf /packages/$(basename "$out"/aotc-*-Linux.tar.gz) -C tgz --strip-components=1"
libtorch=/opt/torch build_sample bookworm /try/tgz/bin/aotc /try/tgz/include
passed "Debian 12: the archive, unpacked anywhere, the sample in C"
inside bookworm "python3 -m venv env && env/bin/pip install -q --no-index /packages/$(basename "$out"/aotc-*.whl) && ln -s /opt/torch \$(echo env/lib/python3*/site-packages)/torch"
libtorch= build_sample bookworm /try/env/bin/aotc /try/env/include
passed "Debian 12: pip install aotc.whl beside torch, the sample in C"

make_root bullseye ca-certificates python3-venv python3-pip python3-numpy
for suite in bookworm bullseye; do
  cp "$work/net.so" "$work/run.py" "$roots/$suite/try/"
  inside $suite "python3 -m venv --system-site-packages run && run/bin/pip install -q --no-index /packages/$(basename "$out"/aotc_runtime-*.whl) && run/bin/python run.py | tee answers && grep -q '$expected' answers"
  passed "$suite: pip install aotc_runtime.whl, the sample from Python ($(sed 's/.*Python/Python/' "$roots/$suite/try/answers"))"
done
inside bullseye "rm -rf tgz && mkdir tgz && tar xzf /packages/$(basename "$out"/aotc-*-Linux.tar.gz) -C tgz --strip-components=1 && name=\$(basename *.npy .npy) &&
  tgz/bin/aotc-device probe net.so && tgz/bin/aotc-device run net.so --input \$name=\$name.npy --output-dir results --quiet && ls results/*.npy && tgz/bin/aotc --version"
passed "Debian 11: aotc-device runs the artifact of Debian 12"
