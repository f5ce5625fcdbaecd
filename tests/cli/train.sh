#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train.sh HONE GOLDEN_FOLDER   What `hone train` leaves behind when it is refused: everything that was there.
set -u
hone=$1 model=$2/train_segment
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
  echo "$*"
  failed=1
}
log=$work/log
train() {
  "$hone" train "$model/model.onnx" --data "$model/train.npz" --loss 'cross_entropy(logits, target/label)' --batch 4 \
    --steps 2 --log "$log" --run-dir "$work/run" -o "$work/out.hone" "$@" > "$work/said" 2>&1
}

train || { cat "$work/said"; exit 1; }
[ "$(wc -l < "$work/log")" -eq 2 ] || complain "two steps did not write two lines"
echo "mine" >> "$work/run/config.toml"
cp -r "$work/run" "$work/before" && cp "$work/log" "$work/log.before"

unchanged() {
  cmp "$work/log" "$work/log.before" || complain "$1 changed the log"
  diff -r "$work/run" "$work/before" || complain "$1 changed the run folder"
}
train --memory-limit 10KiB && complain "a limit of 10 KiB was kept"
grep -q "the smallest that works is" "$work/said" || complain "no smallest limit: $(cat "$work/said")"
unchanged "a refused limit"
train --memory-limit 10KiB --accumulate 2 && complain "a limit of 10 KiB was kept"
unchanged "a refused limit with --accumulate"
train --lr 1e30 --optimizer sgd --steps 50 && complain "training went on with infinite weights"
[ -s "$work/log" ] || complain "no line of the steps before the loss became infinite"

rm -rf "$work/run" "$work/log"
train --memory-limit 10KiB
[ ! -e "$work/log" ] || complain "a refused run made a log"
for file in log.jsonl config.toml; do
  [ ! -e "$work/run/$file" ] || complain "a refused run made $file"
done
log=$work/none/log
train && complain "a log in a folder that is not there"
grep -q "cannot write the log" "$work/said" || complain "no word of the log: $(cat "$work/said")"
exit $failed
