#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: install-packages.sh [build|data|check]...
# Installs the Debian packages that Hone needs, with apt-get, as root or through sudo:
#   build  compiler, build tools and header libraries (the default)
#   data   Fashion-MNIST, for the first example and its test
#   check  Clang and its tools, for the full check
# Packages that are installed already are not asked for again.
set -eu
[ $# -gt 0 ] || set -- build
packages=
for group in "$@"; do
  case $group in
    build) packages="$packages g++ cmake ninja-build flatbuffers-compiler libflatbuffers-dev
      doctest-dev zlib1g-dev libcli11-dev libtomlplusplus-dev" ;;
    data) packages="$packages dataset-fashion-mnist" ;;
    check) packages="$packages clang clang-format clang-tidy shellcheck git" ;;
    *) sed -n '3,8s/^# //p' "$0"; exit 2 ;;
  esac
done

missing=
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || { echo "install-packages: all installed"; exit 0; }

root=
if [ "$(id -u)" != 0 ]; then
  command -v sudo > /dev/null || { echo "install-packages: become root and run: apt-get install$missing" >&2; exit 1; }
  root=sudo
fi
echo "install-packages:$missing"
$root apt-get update -qq
# shellcheck disable=SC2086  # a list of names
$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing > /dev/null
echo "install-packages: done"
