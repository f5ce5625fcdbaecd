#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fetch.sh DEST
# Unpacks ONNX's own backend test suite (7 MB packed, 30 MB unpacked, Apache-2.0) into DEST, from
# Debian's package libonnx-testdata of a pinned version and hash. Needs apt-get and dpkg-deb, but
# neither root nor a change to this machine's apt: it uses a private apt state, with the mirror of
# the machine's own Debian source (or of HONE_DEBIAN_MIRROR) and Debian's keyring. A package that
# is here already may be named in HONE_CONFORMANCE_DEB. What is unpacked already is kept.
set -eu
[ $# = 1 ] || { sed -n '3,9s/^# //p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
suite=sid
version=1.20.0-6
hash=8f862eb22f5dad4cf2528d2f6d20582fd89fd8bea774bde7336870c993e1d7ce
mkdir -p "$1"
dest=$(cd "$1" && pwd)

say() { echo "fetch: $*"; }
die() { echo "fetch: $*" >&2; exit 1; }
[ "$(cat "$dest/.version" 2> /dev/null)" != "$version" ] || exit 0
command -v dpkg-deb > /dev/null || die "there is no dpkg-deb here to unpack a Debian package with"

work=$(mktemp -d "$dest/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"

download() {
  command -v apt-get > /dev/null || die "there is no apt-get here; name the package in HONE_CONFORMANCE_DEB"
  # shellcheck source=toolchains/debian/apt-state.sh
  . "$here/../../toolchains/debian/apt-state.sh"
  find_mirror
  use_suite "$work/apt" deb "$suite"
  (cd "$work" && apt-get download -qq "libonnx-testdata=$version") ||
    die "Debian $suite does not have libonnx-testdata $version any more"
}

if [ -n "${HONE_CONFORMANCE_DEB:-}" ]; then
  cp "$HONE_CONFORMANCE_DEB" "$work/"
else
  download
fi
package=$(echo "$work"/libonnx-testdata_*.deb)
echo "$hash  $package" | sha256sum --check --quiet || die "the package is not the one that is pinned"
dpkg-deb -x "$package" "$work/tree"
for folder in "$work"/tree/usr/share/libonnx-testdata/data/*/; do
  rm -rf "${dest:?}/$(basename "$folder")"
  mv "$folder" "$dest/"
done
echo "$version" > "$dest/.version"
say "ONNX's tests $version are in $dest"
