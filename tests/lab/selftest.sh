#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Proves that run.sh passes right answers and fails wrong ones, with a stand-in for hone and the small golden models.
# Same variables as run.sh (HONE_LAB_ROOT, HONE_LAB_RUN).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${HONE_LAB_ROOT:-}
dir=$(mktemp -d "${root%/}/tmp/hone-selftest-XXXXXX"); trap 'rm -rf "$dir"' EXIT
cp -r "$here"/../golden/train_* "$dir/"
export HONE=$dir/hone HONE_LAB_MODELS=$dir HONE_LAB_EAGER=
cp "$here/fake_hone.py" "$HONE"; chmod +x "$HONE"
n=$(ls -d "$dir"/train_*/ | wc -l)
bad=0

expect() {  # expect FAULT STATUS TEXT: what run.sh says of a hone with this fault
  local text rc=0
  # shellcheck disable=SC2046   # all models only where all must pass
  text=$(FAULT=$1 "$here/run.sh" $([ -z "$1" ] || echo train_two_heads)) || rc=$?
  if [ "$rc" = "$2" ] && grep -q -- "$3" <<< "$text"; then echo "ok    ${1:-no fault}: $3"; else
    echo "WRONG ${1:-no fault}: expected exit $2 and '$3', got exit $rc and"; echo "$text"; bad=1; fi
}
expect ""        0 "^$n passed, 0 failed"
expect run       1 "run: differs by"
expect nan       1 "run: .* not finite"
expect convert   1 "convert: .* other bits"
expect crash     1 "convert: exit 1: convert: node 'x': operator Foo is unknown"
expect gradients 1 "gradients: 1 of .* are off"
expect lost      1 "gradients: 1 of .* are missing"
expect sgd       1 "sgd: sgd loss 10 is"
expect adamw     1 "adamw: adamw loss 10 is"
expect gradients64 1 "grad f64: .* are off"
expect sgd64     1 "sgd f64: sgd loss 10 in f64 is"
expect adamw64   1 "adamw f64: adamw loss 10 in f64 is"
expect short     1 "sgd: .* has 9 losses"
${HONE_LAB_RUN:-} python3 -c 'import onnxruntime' 2> /dev/null && expect export 1 "export: ONNX Runtime on the model after"
exit $bad
