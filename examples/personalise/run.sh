#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: examples/personalise/run.sh [--jobs N] [OPTION...]
# From a bare Debian 12 to a network personalised on this device: installs packages and the data
# (apt-get, through sudo if need be), builds the static dependencies into a cache, builds Hone and
# the example, and runs it. What is done already is not done again.
#   --jobs N   compile N files at once (default: one per processor)
#   OPTION     for the example itself: --data DIR, --epochs N, --threads N, --quick, ...
# The results go to build/personalise.
set -euo pipefail
called_from=$PWD
cd "$(dirname "$0")/../.."
jobs=$(nproc)
options=()
own_data=
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --data | --model | --out)  # paths are the caller's
      [ "$1" != --data ] || own_data=yes
      options+=("$1" "$(cd "$called_from" && realpath -m "${2:?$1 needs a path}")"); shift ;;
    -h | --help) sed -n '3,9s/^# //p' "$0"; exit 0 ;;
    *) options+=("$1") ;;
  esac
  shift
done

start=$SECONDS
step() { printf '\n==> %s (%d s)\n' "$*" $((SECONDS - start)); }

if command -v apt-get > /dev/null; then
  packages=(build)
  [ -n "$own_data" ] || packages+=(data)
  step "Packages from Debian: ${packages[*]}"
  toolchains/debian/install-packages.sh "${packages[@]}"
  step "Static dependencies, built once into the cache"
  toolchains/debian/build-deps.sh --jobs "$jobs" highway xnnpack
else
  step "Not Debian: CMake will say what is missing"
fi

step "Configure: preset release, without tests and command line"
cmake --preset release -B build/example -DHONE_BUILD_TESTS=OFF -DHONE_BUILD_CLI=OFF
step "Build"
cmake --build build/example -j "$jobs" --target hone_personalise
step "Personalise"
build/example/examples/hone_personalise --out build/personalise "${options[@]}"
step "Done"
