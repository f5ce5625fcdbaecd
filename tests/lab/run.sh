#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares hone with PyTorch and ONNX Runtime over a folder of reference models:  run.sh [MODEL ...]
# One table row per model; the last line is "N passed, N failed".  README.md tells what is compared.
#
#   HONE             the hone binary                            (default build/release/bin/hone, or the first `hone` in PATH)
#   HONE_LAB_MODELS  folder with NAME/{model.onnx,...}          (required; tests/golden has small ones)
#   HONE_LAB_ROOT    root of the place that has numpy and onnxruntime, when that is a chroot (default: none)
#   HONE_LAB_RUN     what to put before a command to run it there                             (default: nothing)
#   HONE_LAB_EAGER   hone_lab_eager, for the second table; empty: without (default: beside the release build's tests, if it is there)
#   HONE_LAB_WORK    where the answers go                       (default: a fresh folder under HONE_LAB_ROOT/tmp, removed at the end)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
models=${HONE_LAB_MODELS:?set HONE_LAB_MODELS to the folder of the reference models}
models=$(cd "$models" && pwd)
root=${HONE_LAB_ROOT:-}
root=${root%/}
hone=${HONE:-$here/../../build/release/bin/hone}
eager=${HONE_LAB_EAGER-$here/../../build/release/tests/lab/hone_lab_eager}
[ -x "$hone" ] || hone=$(command -v hone || true)
[ -n "$hone" ] || { echo "run.sh: no hone binary: set HONE" >&2; exit 2; }
if [ -n "$root" ]; then case $models/ in "$root"/*) ;; *) echo "run.sh: $models must lie inside $root" >&2; exit 2 ;; esac; fi

if [ -n "${HONE_LAB_WORK:-}" ]; then
  mkdir -p "$HONE_LAB_WORK"; work=$(cd "$HONE_LAB_WORK" && pwd)
else
  work=$(mktemp -d "$root/tmp/hone-lab-XXXXXX"); trap 'rm -rf "$work"' EXIT
fi
cp "$here/check.py" "$work/"

if [ $# -gt 0 ]; then names=("$@"); else
  names=(); for d in "$models"/*/; do d=${d%/}; [ -f "$d/model.onnx" ] && [ -f "$d/output.npz" ] && names+=("${d##*/}"); done
fi

field() { sed -nE "s/^ *\"$1\": \"?([^\"]*[^\",])\"?,?\$/\1/p" "$2"; }   # meta.json has one field a line

step() {  # step NAME COMMAND...: exit code and messages go beside the answers
  local name=$1 rc=0; shift
  "$@" > "$out/$name.log" 2> "$out/$name.err" < /dev/null || rc=$?
  echo "$rc" > "$out/$name.rc"
}

for name in "${names[@]}"; do
  m=$models/$name out=$work/$name t0=$SECONDS
  [ -f "$m/model.onnx" ] || { echo "run.sh: no such model: $name" >&2; exit 2; }
  rm -rf "$out"; mkdir -p "$out"
  step run     "$hone" run "$m/model.onnx" --inputs "$m/input.npz" --output-dir "$out/run"
  step convert "$hone" convert "$m/model.onnx" -o "$out/model.hone"
  step again   "$hone" run "$out/model.hone" --inputs "$m/input.npz" --output-dir "$out/again"
  step export  "$hone" export "$out/model.hone" -o "$out/export.onnx"
  if [ -f "$m/train.npz" ]; then
    train=("$hone" train "$m/model.onnx" --data "$m/train.npz" --loss "$(field loss "$m/meta.json")"
           --batch "$(field train_batch "$m/meta.json")" --steps 10)
    step sgd   "${train[@]}" --optimizer sgd --lr 0.01 --momentum 0.9 \
               --log "$out/sgd.jsonl" --dump-gradients "$out/grad.npz" -o "$out/sgd.hone"
    step adamw "${train[@]}" --optimizer adamw --lr 0.001 --weight-decay 0.01 --log "$out/adamw.jsonl" -o "$out/adamw.hone"
    step sgd64 "${train[@]}" --dtype f64 --optimizer sgd --lr 0.01 --momentum 0.9 \
               --log "$out/sgd64.jsonl" --dump-gradients "$out/grad64.npz" -o "$out/sgd64.hone"
    step adamw64 "${train[@]}" --dtype f64 --optimizer adamw --lr 0.001 --weight-decay 0.01 --log "$out/adamw64.jsonl" -o "$out/adamw64.hone"
    rm -f "$out"/sgd.hone "$out"/adamw.hone "$out"/sgd64.hone "$out"/adamw64.hone
  fi
  echo $((SECONDS - t0)) > "$out/seconds"
done

rc=0
# shellcheck disable=SC2086   # HONE_LAB_RUN is a command with arguments
${HONE_LAB_RUN:-} python3 "${work#"$root"}/check.py" "${models#"$root"}" "${work#"$root"}" "${names[@]}" || rc=1
if [ -x "$eager" ]; then
  printf '\nThe same models define by run:\n'
  "$eager" --threads "$(nproc)" "$models" "${names[@]}" || rc=1
fi
exit "$rc"
