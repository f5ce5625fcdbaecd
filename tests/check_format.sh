#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: tests/check_format.sh [--fix]
# Holds every C++ and C source against .clang-format; --fix rewrites what differs.
set -eu
cd "$(dirname "$0")/.."
command -v clang-format > /dev/null || { echo "clang-format is missing (apt-get install clang-format)" >&2; exit 2; }
sources() {
  find core backends platform tests examples -type f \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.c' -o -name '*.h' \) -print0
}
case ${1-} in
  --fix) sources | xargs -0 clang-format -i ;;
  '') sources | xargs -0 clang-format --dry-run --Werror ;;
  *) sed -n '3,4s/^# //p' "$0"; exit 2 ;;
esac
