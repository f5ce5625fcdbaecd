#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh HONE FINETUNE [--all] [--only a,b]
# Checks pretrained models; without --all the small ones, which need at most about 20 MB of downloads from npm.
# The kit with their inputs and expected outputs is looked for in HONE_REALMODELS_KIT or beside the project; the models
# are fetched into HONE_REALMODELS_DIR (default: the cache). Without kit, node or network: exit 77, skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hone=$1 finetune=$2
shift 2
only=silero_vad_v5,oww_melspectrogram,oww_embedding,oww_hey_jarvis,ocr_cls,ultraface,dtln_1,espcn_sr,magika,stories260k
while [ $# -gt 0 ]; do
  case $1 in
    --all) only= ;;
    --only) only=$2; shift ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
skip() { echo "skipped: $*"; exit 77; }
kit=${HONE_REALMODELS_KIT:-$here/../../../shared/realmodels}
[ -f "$kit/cases.js" ] || skip "the kit of the pretrained models is not here"
command -v node > /dev/null || skip "node is not installed"
models=${HONE_REALMODELS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/hone/realmodels}
"$kit/fetch.sh" "$models" ${only:+--only "$only"} || skip "the models cannot be had here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for twins in "$models"/.cache/openwakeword-*/models; do
  [ -d "$twins" ] && node "$here/twins.js" --hone "$hone" --kit "$kit" --models "$twins"
done
node "$here/check.js" --hone "$hone" --finetune "$finetune" --kit "$kit" --models "$models" --work "$work" --only "$only"
