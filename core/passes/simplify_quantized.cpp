// SPDX-License-Identifier: Apache-2.0
// Whole numbers that become real only to become the same whole numbers again.
#include <algorithm>

#include "core/passes/simplify_rules.hpp"
#include "hone/op_attrs_quantize.hpp"

namespace hone {

namespace {

// What moves elements of its first input and computes nothing.
bool only_moves(const OpDef& op) {
  const OpDef* const kMoves[] = {&op::reshape, &op::squeeze, &op::unsqueeze, &op::transpose,
                                 &op::slice};
  return std::find(std::begin(kMoves), std::end(kMoves), &op) != std::end(kMoves);
}

// Numbers with which (q s) / s, rounded, is q whatever the rounding before.
bool divides_out(const TensorData* scale) {
  if (!scale || scale->dtype() != DType::f32) return false;
  for (int64_t i = 0; i < scale->numel(); ++i)
    if (!(scale->at(i) > 1e-30 && scale->at(i) < 1e30)) return false;
  return true;
}

bool same_value(Value a, Value b) { return a.valid() ? b.valid() && a.id() == b.id() : !b.valid(); }

// quantize(moves(dequantize(q))) is moves(q), where scale and zero point are the same.
Value quantize_of_dequantize(Rewriter& r, const Pending& p) {
  std::vector<std::pair<const OpDef*, Attrs>> moves;
  Value v = p.input(0);
  const Node* n = r.producer(v);
  for (; n && only_moves(*n->op) && n->inputs.size() == 1; n = r.producer(v)) {
    moves.push_back({n->op, n->attrs});
    v = r.input(*n, 0);
  }
  if (!n || n->op != &op::dequantize_linear) return {};
  const QuantizeAttrs &to = p.as<QuantizeAttrs>(), &from = n->attrs.as<QuantizeAttrs>();
  Value q = r.input(*n, 0);
  const Value scale = r.input(*n, 1);
  const TensorData* numbers = r.constant(scale);
  const bool one_scale = numbers && numbers->numel() == 1;
  const DType dtype = p.input(2).valid() ? r.facts(p.input(2)).dtype.value_or(to.to) : to.to;
  if (!same_value(scale, p.input(1)) || !same_value(r.input(*n, 2), p.input(2)) ||
      !divides_out(numbers) || r.facts(q).dtype != dtype || from.narrow != to.narrow)
    return {};
  if (!one_scale && (!moves.empty() || from.axis != to.axis || from.block_size != to.block_size))
    return {};
  for (auto move = moves.rbegin(); move != moves.rend(); ++move)
    q = r.emit(*move->first, {q}, move->second);
  return q;
}

constexpr SimplifyRule kRules[] = {
    {&op::quantize_linear, "quantized as before", quantize_of_dequantize},
};

}  // namespace

std::span<const SimplifyRule> quantized_rules() { return kRules; }

}  // namespace hone
