// SPDX-License-Identifier: Apache-2.0
// Control flow: bodies are graphs. These operators have neither kernel nor decomposition; when a
// graph is specialised they are unfolded (core/passes/replay.cpp), so that what remains is planned,
// differentiated and run like any other part of it.
#include "hone/control.hpp"
#include "hone/op_table.hpp"

namespace hone {

namespace {

Status open(InferCtx& c) {
  return unsupported("{}: what it gives is known only when its body has been unfolded", c.who());
}

}  // namespace

// if_else(condition, captured..) -> the outputs of one branch.   bool of one element, any ..
const OpDef op::if_else = {
    .name = "if_else",
    .attrs = &kAttrSchema<IfAttrs>,
    .min_inputs = 1,
    .max_inputs = kAnyNumber,
    .infer = open,
    .diff = Diff::by_decomposition,
    .has_bodies = true,
};

// loop(trip_count?, condition?, carried.., captured..) -> carried.., stacked..   i64, bool, any ..
const OpDef op::loop = {
    .name = "loop",
    .attrs = &kAttrSchema<LoopAttrs>,
    .min_inputs = 0,
    .max_inputs = kAnyNumber,
    .infer = open,
    .diff = Diff::by_decomposition,
    .has_bodies = true,
};

// scan(carried.., sequences.., captured..) -> carried.., stacked..   any ..
const OpDef op::scan = {
    .name = "scan",
    .attrs = &kAttrSchema<ScanAttrs>,
    .min_inputs = 1,
    .max_inputs = kAnyNumber,
    .infer = open,
    .diff = Diff::by_decomposition,
    .has_bodies = true,
};

}  // namespace hone
