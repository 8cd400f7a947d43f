#!/usr/bin/env bash
# run.sh BUILD_DIR WORK ARCHIVE: the build, installed and moved, serves a project outside the tree: find_package, add_aotc_model and its dependencies,
# pkg-config; without LibTorch it says what is missing and still shows artifacts; the packages of CPack hold the same files.
set -euo pipefail
build=$(realpath "$1") work=$2 archive=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")
fail() { echo "install: $*"; exit 1; }
unset AOTC_LIBTORCH

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/moved"
prefix=$work/moved
if grep -rIl -e "$work/first" -e "$build" "$prefix"; then fail "a path of the build stands in the files above"; fi

# CMake
cp -r "$here/consumer" "$work/consumer"
cp "$archive" "$work/net.pt2"
cmake -S "$work/consumer" -B "$work/out" -DCMAKE_PREFIX_PATH="$prefix" -DMODEL="$work/net.pt2" -DSHAPES="$work/consumer/shapes.json" >"$work/cmake.log"
rebuilt() { # rebuilt: whether a build of the project makes the artifact anew
  touch "$work/before"
  cmake --build "$work/out" >"$work/build.log" || { cat "$work/build.log"; fail "the project does not build"; }
  [ "$work/out/net.so" -nt "$work/before" ]
}
rebuilt || fail "the artifact was not made"
rebuilt && fail "a build without changes made the artifact anew"
"$work/out/use_c" >"$work/c.txt" || fail "use_c: $(tail -n 1 "$work/c.txt")"
"$work/out/use_cpp" >"$work/cpp.txt" || fail "use_cpp: $(tail -n 1 "$work/cpp.txt")"
cmp "$work/c.txt" "$work/cpp.txt"
[ "$(sort -u "$work/c.txt" | wc -l)" -gt 10 ] || fail "use_c gave the same number again and again"
sed -i 's/32/48/' "$work/consumer/shapes.json"
rebuilt || fail "other shapes did not make the artifact anew"
"$work/out/use_c" >/dev/null && fail "use_c was refused nothing at batch 33 after the range had grown"
touch "$work/net.pt2"
rebuilt || fail "another archive did not make the artifact anew"
touch "$prefix/bin/aotc"
rebuilt || fail "another aotc did not make the artifact anew"

# pkg-config
if command -v pkg-config >"$work/which.log"; then
  export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  make -s -C "$work/consumer" MODEL="$work/net.pt2" SHAPES="$work/consumer/shapes.json"
  (cd "$work/consumer" && { ./use_make || true; }) >"$work/make.txt"
  cmp "$work/c.txt" "$work/make.txt"
fi

# Without LibTorch
status=0
AOTC_LIBTORCH=$work "$prefix/bin/aotc" build "$work/net.pt2" -o "$work/none.so" --quiet 2>"$work/missing.txt" || status=$?
[ "$status" -eq 5 ] && grep -q "AOTC_LIBTORCH=$work: .*no libtorch_cpu.so" "$work/missing.txt" || fail "no LibTorch, exit $status: $(cat "$work/missing.txt")"
mkdir "$work/old"
echo "__version__ = '2.0.1'" >"$work/old/version.py"
mkdir "$work/old/lib"
touch "$work/old/lib/libtorch_cpu.so"
AOTC_LIBTORCH=$work/old "$prefix/bin/aotc" inspect "$work/net.pt2" 2>"$work/old.txt" && fail "LibTorch 2.0 was taken"
grep -q "LibTorch 2.0.1; 2.11 or later is needed" "$work/old.txt" || fail "$(cat "$work/old.txt")"
AOTC_LIBTORCH=$work "$prefix/bin/aotc" inspect "$work/out/net.so" >"$work/inspect.txt"
[ ! -e "$work/none.so" ] || fail "an artifact without LibTorch"

# The packages
(cd "$build" && cpack -G TGZ -B "$work/packages" && { ! command -v dpkg-shlibdeps || cpack -G DEB -B "$work/packages"; }) >"$work/cpack.log" 2>&1 ||
  { cat "$work/cpack.log"; fail "cpack"; }
(cd "$prefix" && find . -type f ! -name libtorch.path | sort) >"$work/installed.txt"
mkdir "$work/tgz"
tar -xzf "$work"/packages/aotc-*.tar.gz -C "$work/tgz" --strip-components=1
(cd "$work/tgz" && find . -type f | sort) | diff "$work/installed.txt" - || fail "the .tgz holds other files"
if ls "$work"/packages/*.deb >/dev/null 2>&1; then
  dpkg-deb -x "$work"/packages/aotc_*.deb "$work/deb"
  (cd "$work/deb/usr" && find . -type f | sort) | diff "$work/installed.txt" - || fail "the .deb holds other files"
  needs=$(dpkg-deb -f "$work"/packages/aotc_*.deb Depends)
  [[ $needs == *g++* && $needs == *libstdc++6* ]] || fail "the .deb lacks what it depends on: $needs"
  "$work/deb/usr/bin/aotc" inspect "$work/out/net.so" | cmp "$work/inspect.txt" -
fi
rm -rf "$work/packages" "$work/tgz" "$work/deb"
