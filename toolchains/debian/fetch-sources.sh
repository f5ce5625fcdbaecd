#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fetch-sources.sh DEST NAME...
# Downloads the Debian source packages named in pins.txt and unpacks each into DEST/NAME-VERSION.
# Needs neither root nor a change to this machine's apt: it uses a private apt state, with the mirror
# of the machine's own Debian source (or of HONE_DEBIAN_MIRROR) and Debian's keyring. apt checks the
# signed index and each file's hash; a pinned file must have the pinned hash as well. What is already
# unpacked is kept.
set -eu
[ $# -ge 2 ] || { sed -n '3,9s/^# //p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dest=$(cd "$1" && pwd)
shift

say() { echo "fetch-sources: $*"; }
die() { echo "fetch-sources: $*" >&2; exit 1; }
pin() { awk -v n="$1" -v f="$2" '$1 == n { print $f }' "$here/pins.txt"; }

todo=
for name in "$@"; do
  version=$(pin "$name" 3)
  [ -n "$version" ] || die "pins.txt does not know '$name'"
  [ -d "$dest/$name-$version" ] || todo="$todo $name"
done
[ -n "$todo" ] || exit 0

command -v apt-get > /dev/null || die "there is no apt-get here; get the sources of$todo yourself and" \
  "unpack them as $dest/NAME-VERSION (names and versions: $here/pins.txt)"
command -v cmake > /dev/null || die "cmake is needed to unpack the sources (apt-get install cmake)"
# shellcheck source=toolchains/debian/apt-state.sh
. "$here/apt-state.sh"
find_mirror

work=$(mktemp -d "$dest/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"

for name in $todo; do
  version=$(pin "$name" 3)
  suite=$(pin "$name" 2)
  # One state per suite, so that a suite's current version is really that suite's.
  use_suite "$work/$suite" deb-src "$suite"
  got=$version
  hash=$(pin "$name" 4)
  mkdir "$work/$name" "$work/$name/tree"
  cd "$work/$name"
  download() { apt-get source -qq --download-only --tar-only "$1" > log 2>&1; }
  if ! download "$name=$version"; then
    got=$(apt-cache showsrc "$name" 2> /dev/null | awk '$1 == "Version:" { v = $2 } END { print v }')
    [ -n "$got" ] || { cat log >&2; die "Debian $suite has no source package '$name'"; }
    say "$name $version has left Debian $suite; taking the current $got"
    download "$name=$got" || { cat log >&2; die "cannot download $name $got"; }
  fi
  if [ "$got" = "$version" ]; then
    echo "$hash  $(echo ./*.orig.tar.*)" | sha256sum --check --quiet || die "$name $got is not what pins.txt expects"
  fi
  (cd tree && cmake -E tar xf ../*.orig.tar.*)
  echo "$got" > tree/.debian-version
  # Some tarballs have one folder at the top, some have none.
  set -- tree/*
  top=tree
  if [ $# = 1 ] && [ -d "$1" ]; then
    top=$1
    mv tree/.debian-version "$top/"
  fi
  mv "$top" "$dest/$name-$version"
  say "$name $got"
done
