// SPDX-License-Identifier: Apache-2.0
// Attributes of the control operators. Their bodies are graphs with untyped inputs; what a body
// uses from outside it gets as further inputs, which the node gives after its own.
#pragma once

#include "hone/attrs.hpp"

namespace hone {

/// if_else(condition, captured..) -> outputs of the branch taken. Both branches take all captured
/// values (ONNX If).
struct IfAttrs {
  GraphPtr then_branch, else_branch;
  template <class F>
  static void fields(IfAttrs& a, F f) {
    f("then_branch", a.then_branch), f("else_branch", a.else_branch);
  }
};

/// loop(trip_count?, condition?, carried.., captured..) -> carried.., stacked.. (ONNX Loop).
/// The body maps (iteration, condition, carried.., captured..) to (condition, carried..,
/// stacked..).
struct LoopAttrs {
  GraphPtr body;
  int64_t carried = 0;  ///< How many values go from one iteration to the next.
  template <class F>
  static void fields(LoopAttrs& a, F f) {
    f("body", a.body), f("carried", a.carried);
  }
};

/// scan(carried.., sequences.., captured..) -> carried.., stacked.. (ONNX Scan). The body maps
/// (carried.., one element of each sequence.., captured..) to (carried.., one element of each
/// stacked output..).
struct ScanAttrs {
  GraphPtr body;
  int64_t carried = 0;
  std::vector<int64_t> in_axes;      ///< For each sequence; may be negative.
  std::vector<int64_t> in_reverse;   ///< 1: from the last element to the first.
  std::vector<int64_t> out_axes;     ///< For each stacked output.
  std::vector<int64_t> out_reverse;  ///< 1: the first element comes last.
  template <class F>
  static void fields(ScanAttrs& a, F f) {
    f("body", a.body), f("carried", a.carried), f("in_axes", a.in_axes),
        f("in_reverse", a.in_reverse), f("out_axes", a.out_axes), f("out_reverse", a.out_reverse);
  }
};

}  // namespace hone
