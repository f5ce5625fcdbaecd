#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: selected.sh WORK ROW MODELS [CMAKE_ARGUMENT...]
# Builds `infer` with the operators of mobilenet_v2 and `train` with those of training lenet (operators/*.txt), runs
# them on the models in MODELS (hone_size_models makes them) and holds their sizes against the lines of ROW in
# budget.txt. STRIP and RUN may name the tool and the emulator of another processor.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 3 ] || { sed -n '3,6s/^# //p' "$0"; exit 2; }
work=$1 row=$2 models=$3
shift 3
programs=()
for program in infer train; do
  build=$work/$program
  cmake -S "$here/selected" -B "$build" -G Ninja -DPROGRAM=$program -DHONE_OPERATORS="$here/operators/$program.txt" \
    -DCMAKE_BUILD_TYPE=MinSizeRel -DHONE_SIMD=FEW -DHONE_ONEDNN=OFF "$@" > "$work.log"
  cmake --build "$build" --target hone_size_$program >> "$work.log" || { tail -n 30 "$work.log" >&2; exit 1; }
  programs+=("$build/hone_size_$program")
done
# shellcheck disable=SC2086  # a command and its arguments
{
  ${RUN-} "$work/infer/hone_size_infer" "$models/mobilenet_v2.hone"
  ${RUN-} "$work/train/hone_size_train" "$models/lenet.hone" "$work/tuned.hone"
  if ${RUN-} "$work/infer/hone_size_infer" "$models/with_erf.hone" 2> "$work/refused"; then
    echo "selected.sh: a model with an operator that was left out ran" >&2
    exit 1
  fi
}
grep -q "'erf'.*HONE_OPERATORS" "$work/refused" || { cat "$work/refused" >&2; exit 1; }

# A list that names no operator of Hone's is refused before anything is built.
echo "convolution" > "$work/unknown.txt"
if cmake -S "$here/selected" -B "$work/unknown" -G Ninja -DPROGRAM=infer -DHONE_OPERATORS="$work/unknown.txt" \
     -DHONE_ONEDNN=OFF "$@" > "$work/refused" 2>&1; then
  echo "selected.sh: a list with an unknown operator was taken" >&2
  exit 1
fi
grep -q "'convolution', which is no operator" <(tr -s ' \n' ' ' < "$work/refused") || { cat "$work/refused" >&2; exit 1; }
python3 "$here/sizes.py" --budget "$here/budget.txt" --row "$row" --strip "${STRIP:-strip}" "${programs[@]}"
