#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: compare.sh [--quick] [OPTION OF compare.py ...]   Hone beside PyTorch and ONNX Runtime: one command.
# Builds the release binary if there is none; writes compare.json and compare.md into HONE_BENCH_OUT.
#
#   HONE             the hone binary                     (default: build/release/hone, which is built when missing)
#   HONE_LAB_MODELS  folder with NAME/model.onnx         (required)
#   HONE_LAB_RUN     what to put before a command to run it where the peers are; without it only Hone is timed
#   HONE_LAB_ROOT    root of that place, when it is a chroot (for the pretrained models)
#   HONE_REALMODELS_DIR  pretrained models, NAME/model.onnx (default: where tests/realmodels keeps them, if it has; empty: none)
#   HONE_BENCH_OUT   where results go                    (default: build/bench)
# BENCH_NICE (default -15; empty: off) gives the timed processes priority, which needs root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
models=${HONE_LAB_MODELS:?set HONE_LAB_MODELS to the folder of the models}
lab=${HONE_LAB_ROOT:-}
lab=${lab%/}
out=${HONE_BENCH_OUT:-$root/build/bench}
hone=${HONE:-$root/build/release/hone}
if [ -z "${HONE:-}" ] && [ ! -x "$hone" ]; then
  echo "compare.sh: building $hone" >&2
  (cd "$root" && cmake --preset release > /dev/null && cmake --build --preset release --target hone_command) >&2
fi
[ -x "$hone" ] || { echo "compare.sh: no hone binary at $hone" >&2; exit 2; }
real=${HONE_REALMODELS_DIR-${XDG_CACHE_HOME:-$HOME/.cache}/hone/realmodels}

more=()
case " $* " in *" --quick "*) real= ;; esac   # a look is over in two minutes
[ -n "$real" ] && [ -d "$real" ] && more+=(--real "$real")
if [ -n "${HONE_LAB_RUN:-}" ]; then
  more+=(--peer-run "$HONE_LAB_RUN" --peer-models "/${models#"$lab/"}")
  [ -n "$lab" ] && more+=(--peer-root "$lab")
fi
if [ "$(id -u)" = 0 ]; then export BENCH_NICE=${BENCH_NICE--15}; fi
[ -n "${BENCH_NICE:-}" ] || unset BENCH_NICE
mkdir -p "$out"
exec python3 "$here/compare.py" --hone "$hone" --models "$models" "${more[@]}" \
  --json "$out/compare.json" --out "$out/compare.md" "$@"
