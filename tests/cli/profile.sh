#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: profile.sh HONE GOLDEN_FOLDER   `hone bench --profile, --trace, --machine` and `hone train --profile`.
set -u
hone=$1 model=$2/train_segment/model.onnx data=$2/train_segment/train.npz
loss=$(sed -nE 's/^ *"loss": "([^"]*)",?$/\1/p' "$2/train_segment/meta.json")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check EXIT_CODE TEXT ARGUMENT...: how the command ends, and what it prints.
check() {
  local want=$1 text=$2 out code
  shift 2
  out=$("$hone" "$@" 2>&1)
  code=$?
  if [ "$code" -ne "$want" ] || [[ $out != *"$text"* ]]; then
    printf 'hone %s\n  ended with %s, not %s, or did not print "%s":\n%s\n' \
      "$*" "$code" "$want" "$text" "$out"
    failed=1
  fi
}

fast=(--seconds 0.02 --threads 1)
check 0 "The slowest steps" bench "$model" --profile "${fast[@]}"
check 0 "Phases: forward" bench "$model" --train --profile "${fast[@]}"
check 0 '"profile": {"runs"' bench "$model" --profile --json "${fast[@]}"
[ "$("$hone" bench "$model" --profile --json "${fast[@]}" | wc -l)" -eq 1 ] || { echo "the JSON is not one line"; failed=1; }
check 0 "median" bench "$model" --train --trace "$work/t.json" "${fast[@]}"
check 0 "f32 Gflop/s" bench --machine --threads 1
check 0 '"memory_gb_per_s"' bench --machine --json --threads 1
check 1 "$work/none/t.json" bench "$model" --trace "$work/none/t.json" "${fast[@]}"
check 2 "excludes" bench "$model" --machine
check 2 "excludes" bench "$model" --train --plan-only --profile
check 2 "requires" bench --profile --machine
check 2 "MODEL, --machine or --packing" bench
train=(train "$model" --data "$data" --loss "$loss" --batch 2 --steps 2 --threads 1 -o "$work/o.hone")
check 0 "Where the time went" "${train[@]}" --profile
check 0 "Wrote $work/train.json" "${train[@]}" --trace "$work/train.json"

# The first run counts with the planning before it.
for mode in "" --train; do
  # shellcheck disable=SC2086   # none or one argument
  "$hone" bench "$model" $mode --json "${fast[@]}" |
    sed -E 's/.*"median_ms": ([^,]*),.*"plan_ms": ([^,]*), "first_ms": ([^,]*),.*/\1 \2 \3/' |
    awk '{ exit !($2 > 0 && $3 > $2) }' || { echo "the first run ($mode) takes no longer than planning"; failed=1; }
done

# Four runs of every step; in a training also the data.
runs=$(grep -c '"step": 0' "$work/t.json")
[ "$runs" = 4 ] || { echo "t.json has $runs runs of the first step, not 4"; failed=1; }
grep -q '"name": "data"' "$work/train.json" || { echo "train.json does not show the data"; failed=1; }
for f in t train; do
  [[ $(head -c 2 "$work/$f.json")$(tail -c 3 "$work/$f.json") == '{"]}' ]] || { echo "$f.json is cut"; failed=1; }
  if command -v python3 > /dev/null && ! python3 -m json.tool "$work/$f.json" > /dev/null; then failed=1; fi
done
out=$("$hone" "${train[@]}")
[[ $out == *"Where the time"* ]] && { echo "a training shows its profile unasked"; failed=1; }
exit $failed
