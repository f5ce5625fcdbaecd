#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training within the smallest memory limit gives the same losses to the last digit as without one,
# over every model of a folder laid out as for run.sh. HONE and HONE_LAB_MODELS as there.
# usage: memory_bits.sh [MODEL...]
set -euo pipefail
hone=${HONE:?the hone program} models=${HONE_LAB_MODELS:?the folder of models}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
field() { sed -nE "s/^ *\"$1\": \"?([^\"]*[^\",])\"?,?\$/\1/p" "$2"; }  # meta.json has one field a line
passed=0 failed=0
folders=("$models"/*)
[ $# -eq 0 ] || folders=("${@/#/$models/}")
for dir in "${folders[@]}"; do
  [ -f "$dir/train.npz" ] || continue
  name=${dir##*/}
  train() {
    "$hone" train "$dir/model.onnx" --data "$dir/train.npz" --loss "$(field loss "$dir/meta.json")" \
      --batch "$(field train_batch "$dir/meta.json")" --steps 4 --optimizer adamw --lr 0.001 --threads 2 -o "$work/out.hone" "$@"
  }
  train --log "$work/free" > /dev/null 2>&1
  least=$({ train --memory-limit 1KiB 2>&1 || true; } | sed -n 's/.*smallest that works is \([0-9]*\) bytes.*/\1/p')
  if train --memory-limit "$least" --log "$work/bound" > "$work/said" 2>&1 && cmp -s "$work/free" "$work/bound"; then
    passed=$((passed + 1))
    echo "ok: $name at $least bytes: $(grep -o '[0-9]* of [0-9]* operations.*\|nothing needs.*' "$work/said")"
  else
    failed=$((failed + 1))
    echo "FAILED: $name at '$least' bytes: $(tail -n 1 "$work/said")"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
