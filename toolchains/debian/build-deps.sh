#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: build-deps.sh [--jobs N] [--toolchain FILE] [NAME...]
# Builds the static libraries that Debian 12 does not have (xnnpack, highway and, on x86-64, onednn)
# from pinned Debian source packages, into a cache folder that Hone's CMake files look into:
# HONE_DEPS_DIR, or else hone/ in the user's cache folder. Needs no root. What is there is kept;
# a build that fails leaves nothing behind but its log. Times: toolchains/README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
toolchains=$(dirname "$here")
jobs=$(nproc)
toolchain=
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=$2; shift 2 ;;
    --toolchain) toolchain=$(realpath "$2"); shift 2 ;;
    -h | --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
    -*) echo "build-deps: unknown option $1" >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done

say() { echo "build-deps: $*"; }
die() { echo "build-deps: $*" >&2; exit 1; }
for tool in cmake flock "${CXX:-c++}"; do
  command -v "$tool" > /dev/null || die "$tool is missing (toolchains/debian/install-packages.sh gets it)"
done
# The recipes choose their own flags; the caller's would not be part of the cache's key.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS

ask_cache() {
  cmake -DNAME="$1" -DCXX="${CXX:-c++}" -DTOOLCHAIN="$toolchain" -P "$toolchains/cmake/HoneDepsCache.cmake"
}
if [ ${#names[@]} = 0 ]; then
  names=(highway xnnpack)
  case $(ask_cache onednn) in *-x86_64-*) names+=(onednn) ;; esac
fi

if command -v ninja > /dev/null; then generator=Ninja; else generator="Unix Makefiles"; fi
export NINJA_STATUS="[%p] "

# On a terminal the build tool's own line is good; in a log one line for every tenth is enough.
progress() {
  awk -v name="$1" 'match($0, /^\[ *[0-9]+%\]/) {
    p = substr($0, 2, RLENGTH - 3) + 0
    if (p >= next_p) { printf "build-deps: %s %3d %%\n", name, p; fflush(); next_p = p - p % 10 + 10 }
  }'
}

build() {
  local name=$1 folder trees root arguments=() tree source start=$SECONDS
  eval "$(ask_cache "$name")"  # sets folder and trees (NAME-VERSION of each source package)
  root=$(dirname "$folder")
  if [ -d "$folder" ]; then
    say "$name is in the cache: $folder"
    return
  fi
  mkdir -p "$root"
  exec 9> "$root/.lock-$name"
  flock -n 9 || { say "waiting for another build of $name"; flock 9; }
  [ ! -d "$folder" ] || { say "$name is in the cache now: $folder"; return; }

  # shellcheck disable=SC2046,SC2086  # lists of names
  "$here/fetch-sources.sh" "$root/sources" $(printf '%s\n' $trees | sed 's/-.*//')
  for tree in $trees; do
    source=${tree%%-*}
    arguments+=("-D${source^^}_SOURCE=$root/sources/$tree")
  done
  [ -z "$toolchain" ] || arguments+=("-DCMAKE_TOOLCHAIN_FILE=$toolchain")

  work=$(mktemp -d "$root/.build-$name-XXXXXX")
  local log=$root/$name.log
  say "building $name with $jobs jobs (log: $log)"
  {
    cmake -S "$toolchains/$name" -B "$work/build" -G "$generator" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_INSTALL_PREFIX="$work/install" -DCMAKE_INSTALL_LIBDIR=lib "${arguments[@]}" &&
    cmake --build "$work/build" -j "$jobs" &&
    cmake --install "$work/build"
  } 2>&1 | tee "$log" | progress "$name" || { tail -n 30 "$log" >&2; die "$name could not be built"; }

  for tree in $trees; do
    echo "${tree%%-*} $(cat "$root/sources/$tree/.debian-version" 2> /dev/null || echo "${tree#*-}")"
  done > "$work/install/versions.txt"
  mv "$work/install" "$folder"
  rm -rf "$work"
  say "$name built in $((SECONDS - start)) s: $folder ($(du -sh "$folder" | cut -f1))"
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for name in "${names[@]}"; do
  [ -f "$toolchains/$name/CMakeLists.txt" ] || die "there is no recipe for '$name'"
  build "$name"
done
