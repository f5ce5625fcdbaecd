#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/run.sh [--quick] [--asan] [--werror] [--jobs N] [--without-onednn]
# From a bare Debian 12 to a tested Hone: installs packages (apt-get, through sudo if need be), builds
# the static dependencies into a cache, configures, builds and runs the tests. What is done already is
# not done again.
#   --quick           without the tests that a developer does not wait for (label `slow`)
#   --asan            with the address and undefined-behaviour sanitizers
#   --werror          warnings are errors
#   --jobs N          compile N files at once (default: one per processor)
#   --without-onednn  skip its build, which is the longest part of a first run (toolchains/README.md)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release
exclude=()
dependencies=()
options=()
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --quick) exclude=(-LE slow) ;;
    --asan) preset=asan ;;
    --werror) options+=(-DHONE_WERROR=ON) ;;
    --jobs) jobs=$2; shift ;;
    --without-onednn) dependencies=(highway xnnpack) ;;
    -h | --help) sed -n '3,11s/^# //p' "$0"; exit 0 ;;
    *) echo "tests/run.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

start=$SECONDS
step() { printf '\n==> %s (%d s)\n' "$*" $((SECONDS - start)); }

if command -v apt-get > /dev/null; then
  step "Packages from Debian"
  toolchains/debian/install-packages.sh build data
  step "Static dependencies, built once into the cache"
  toolchains/debian/build-deps.sh --jobs "$jobs" "${dependencies[@]}"
else
  step "Not Debian: CMake will say what is missing"
fi

step "Configure: preset $preset"
cmake --preset "$preset" "${options[@]}"
step "Build"
cmake --build --preset "$preset" -j "$jobs"
step "Test"
ctest --preset "$preset" -j "$jobs" "${exclude[@]}"
step "Done: the tests pass"
