#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: plan.sh HONE GOLDEN_FOLDER   `hone inspect --plan`: its options, files and errors.
set -u
hone=$1 model=$2/train_segment/model.onnx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check EXIT_CODE TEXT ARGUMENT...: how the command ends, and what it prints.
check() {
  local want=$1 text=$2 out code
  shift 2
  out=$("$hone" inspect "$@" 2>&1)
  code=$?
  if [ "$code" -ne "$want" ] || [[ $out != *"$text"* ]]; then
    printf 'hone inspect %s\n  ended with %s, not %s, or did not print "%s":\n%s\n' \
      "$*" "$code" "$want" "$text" "$out"
    failed=1
  fi
}

check 0 "Inference of model.onnx, input [4, 1, 8, 8]" "$model" --plan --batch 4
check 0 "optimizer state" "$model" --plan --train --batch 16
check 0 "wrote $work/a.svg" "$model" --plan --train --batch 16 --picture "$work/a.svg"
check 0 "wrote $work/a.html" "$model" --plan --picture "$work/a.html"
check 1 "the smallest that works is" "$model" --plan --train --batch 16 --memory-limit 10KiB
least=$("$hone" inspect "$model" --plan --train --batch 16 --memory-limit 10KiB 2>&1 |
  sed -n 's/.*the smallest that works is \([0-9]*\) bytes.*/\1/p')
check 0 "steps are second runs" "$model" --plan --train --batch 16 --memory-limit "$least"
check 1 "--max-dims: the limit 'N': expected NAME=N" "$model" --plan --max-dims N
check 1 "must end in .svg or .html" "$model" --plan --picture "$work/a.png"
check 1 "$work/none/a.svg" "$model" --plan --picture "$work/none/a.svg"
check 2 "--plan" "$model" --train
check 2 "--plan" "$model" --picture "$work/b.svg"
[[ $(head -c 4 "$work/a.svg") == "<svg" ]] || { echo "a.svg does not begin with <svg"; failed=1; }
[[ $(head -c 9 "$work/a.html") == "<!DOCTYPE" ]] || { echo "a.html is no page"; failed=1; }
if [ -e "$work/a.png" ] || [ -e "$work/b.svg" ]; then
  echo "a file was written in spite of an error"
  failed=1
fi
exit $failed
