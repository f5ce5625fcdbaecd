#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh PROGRAM [OPTION...]
# Runs hone_conformance over ONNX's test suite: that in HONE_CONFORMANCE_DATA, or else that in the
# user's cache folder, which is fetched when it is not there. Exits with 77 when it cannot be had.
set -eu
[ $# -ge 1 ] || { sed -n '3,5s/^# //p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
program=$1
shift
data=${HONE_CONFORMANCE_DATA:-${XDG_CACHE_HOME:-$HOME/.cache}/hone/onnx-testdata}
beside=$here/../../../shared/conformance/libonnx-testdata_1.20.0-6_all.deb
if [ -z "${HONE_CONFORMANCE_DATA:-}" ]; then
  [ -n "${HONE_CONFORMANCE_DEB:-}" ] || [ ! -f "$beside" ] || export HONE_CONFORMANCE_DEB="$beside"
  "$here/fetch.sh" "$data" || { echo "skipped: ONNX's test suite cannot be had here"; exit 77; }
fi
exec "$program" "$@" "$data"
