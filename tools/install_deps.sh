#!/usr/bin/env bash
# Installs what Hocket needs on Debian 12. Does nothing when everything is there, so `make` can call it every time.
#   tools/install_deps.sh [build|test|lint]    build: the binary; test: plus tests and benchmarks; lint: plus clang tools
set -euo pipefail

build=(g++ cmake ninja-build make pkg-config ca-certificates
       libboost1.81-dev nlohmann-json3-dev libsimdjson-dev libspdlog-dev libfmt-dev libcli11-dev
       libyaml-cpp-dev libexpected-dev libpcre2-dev libutf8proc-dev prometheus-cpp-dev libssl-dev)
test=(libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev libonig-dev python3 curl
      libdnnl-dev ocl-icd-opencl-dev opencl-headers)
lint=(clang lld clang-format clang-tidy libclang-rt-14-dev)

wanted=("${build[@]}")
case "${1:-build}" in
  build) ;;
  test) wanted+=("${test[@]}") ;;
  lint) wanted+=("${test[@]}" "${lint[@]}") ;;
  *) echo "usage: $0 [build|test|lint]" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}. Install them as root, or install sudo." >&2; exit 1; }
  sudo=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
