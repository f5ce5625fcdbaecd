// SPDX-License-Identifier: Apache-2.0
// Activation functions written out by exporters whose operator set lacks them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/passes/simplify_products.hpp"
#include "hone/special_ops.hpp"

namespace hone {

namespace {

constexpr double kGeluCubic = 0.044715;
constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

// 1 + f(argument), f being of one kind.
Value one_plus(Rewriter& r, Value v, const OpDef& op, int& rank) {
  const auto sum = shifted(r, v);
  const Node* n = sum && sum->number == 1 ? r.producer(sum->other, op) : nullptr;
  if (!n) return {};
  rank = std::max(rank, sum->rank);
  return r.input(*n, 0);
}

// The x of x (1 + f) / 2, its parts taken out of `p` at a time: whether nothing else is left.
bool is_half_of(Rewriter& r, const Pending& p, Value x, Value gate, int rank) {
  auto whole = product_of(r, p, x);
  return whole && whole->take(x) && whole->take(gate) && whole->factors.empty() &&
         !whole->has_rest() && whole->scales_by(0.5) && fits(r, std::max(rank, whole->rank), x);
}

// x when v = x * number.
Value scaled(Rewriter& r, Value v, double number, int& rank) {
  const Node* n = r.producer(v);
  if (!n || (n->op != &op::mul && n->op != &op::div)) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Value x = r.input(*n, i);
    const auto p = product_of(r, v, x);
    if (!p || !p->is_one_of(x) || p->has_rest() || !p->scales_by(number)) continue;
    rank = std::max(rank, p->rank);
    return x;
  }
  return {};
}

// Whether v = number * x^power.
bool is_power(Rewriter& r, Value v, Value x, size_t power, double number, int& rank) {
  const auto p = product_of(r, v, x);
  if (!p || p->factors.size() != power || p->has_rest() || !p->scales_by(number)) return false;
  for (const Value& f : p->factors)
    if (f.id() != x.id()) return false;
  rank = std::max(rank, p->rank);
  return true;
}

// x when v = sqrt(2 / pi) (x + 0.044715 x^3), or with x before the parentheses.
Value tanh_argument(Rewriter& r, Value v, int& rank) {
  const auto whole = product_of(r, v);
  if (!whole) return {};
  for (const Value& inner : whole->factors) {
    const auto outside = product_of(r, v, inner);
    if (!outside || outside->has_rest() || !outside->scales_by(kSqrt2OverPi)) continue;
    const Node* sum = r.producer(inner, op::add);
    if (!sum) continue;
    const Value parts[] = {r.input(*sum, 0), r.input(*sum, 1)};
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Value x = parts[i];
      if (outside->is_one_of(inner) && is_power(r, parts[1 - i], x, 3, kGeluCubic, rank)) {
        rank = std::max(rank, outside->rank);
        return x;
      }
    }
    const auto one = shifted(r, inner);
    const auto square = one && one->number == 1 ? product_of(r, one->other) : std::nullopt;
    if (!square || square->factors.empty()) continue;
    const Value x = square->factors[0];
    auto again = product_of(r, v, x);
    if (!again || !again->take(x) || !again->is_one_of(inner)) continue;
    if (!is_power(r, one->other, x, 2, kGeluCubic, rank)) continue;
    rank = std::max({rank, again->rank, one->rank});
    return x;
  }
  return {};
}

Value recognise_gelu(Rewriter& r, const Pending& p) {
  const auto whole = product_of(r, p);
  if (!whole || whole->has_rest()) return {};
  for (const Value& gate : whole->factors) {
    int rank = 0;
    GeluForm form = GeluForm::erf;
    Value x, argument = one_plus(r, gate, op::erf, rank);
    if (argument.valid()) x = scaled(r, argument, 1 / std::numbers::sqrt2, rank);
    if (!argument.valid()) {
      form = GeluForm::tanh;
      argument = one_plus(r, gate, op::tanh, rank);
      if (argument.valid()) x = tanh_argument(r, argument, rank);
    }
    if (x.valid() && is_half_of(r, p, x, gate, rank)) return r.emit(op::gelu, {x}, GeluAttrs{form});
  }
  return {};
}

// x when v = exp(-x).
Value negated_exponential(Rewriter& r, Value v) {
  const Node* e = r.producer(v, op::exp);
  const Node* n = e ? r.producer(r.input(*e, 0), op::neg) : nullptr;
  return n ? r.input(*n, 0) : Value();
}

// 1 / (1 + exp(-x)).
Value recognise_sigmoid(Rewriter& r, const Pending& p) {
  const Value divisor = p.input(&p.op == &op::div ? 1 : 0);
  int rank = 0;
  if (&p.op == &op::div) {
    if (r.number(p.input(0)) != 1.0) return {};
    rank = r.constant(p.input(0))->shape().rank();
  }
  const auto sum = shifted(r, divisor);
  const Value x = sum && sum->number == 1 ? negated_exponential(r, sum->other) : Value();
  return x.valid() && fits(r, std::max(rank, sum->rank), x) ? r.emit(op::sigmoid, {x}) : Value();
}

// x sigmoid(x), or x / (1 + exp(-x)).
Value recognise_silu(Rewriter& r, const Pending& p) {
  const Value a = p.input(0), b = p.input(1);
  if (&p.op == &op::div) {
    const auto sum = shifted(r, b);
    const Value x = sum && sum->number == 1 ? negated_exponential(r, sum->other) : Value();
    const bool is_silu = x.valid() && x.id() == a.id() && fits(r, sum->rank, x);
    return is_silu ? r.emit(op::silu, {x}) : Value();
  }
  const Node *first = r.producer(a, op::sigmoid), *second = r.producer(b, op::sigmoid);
  if (second && r.input(*second, 0).id() == a.id()) return r.emit(op::silu, {a});
  if (first && r.input(*first, 0).id() == b.id()) return r.emit(op::silu, {b});
  return {};
}

// x when v = min(max(x + 3, 0), 6).
Value clipped_shift(Rewriter& r, Value v, int& rank) {
  const Node* n = r.producer(v, op::clip);
  if (!n || n->attrs.as<ClipAttrs>().low != 0 || n->attrs.as<ClipAttrs>().high != 6) return {};
  const auto sum = shifted(r, r.input(*n, 0));
  if (!sum || sum->number != 3) return {};
  rank = sum->rank;
  return sum->other;
}

// clip(x + 3, 0, 6) / 6, and x times that.
Value recognise_hard(Rewriter& r, const Pending& p) {
  const auto whole = product_of(r, p);
  if (!whole || whole->has_rest() || !whole->scales_by(1.0 / 6)) return {};
  for (const Value& gate : whole->factors) {
    int rank = 0;
    const Value x = clipped_shift(r, gate, rank);
    if (!x.valid()) continue;
    auto rest = product_of(r, p, x);
    if (!rest || !rest->take(gate) || !fits(r, std::max(rank, rest->rank), x)) continue;
    if (rest->factors.empty()) return r.emit(op::hard_sigmoid, {x}, AlphaBetaAttrs{1.0 / 6, 0.5});
    if (rest->is_one_of(x)) return r.emit(op::hard_swish, {x});
  }
  return {};
}

// x hard_sigmoid(x; 1/6, 1/2).
Value recognise_hard_swish(Rewriter& r, const Pending& p) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Value x = p.input(i);
    const Node* n = r.producer(p.input(1 - i), op::hard_sigmoid);
    if (!n || r.input(*n, 0).id() != x.id()) continue;
    const AlphaBetaAttrs& a = n->attrs.as<AlphaBetaAttrs>();
    if (near(a.alpha, 1.0 / 6) && a.beta == 0.5) return r.emit(op::hard_swish, {x});
  }
  return {};
}

// clip(alpha x + beta, 0, 1).
Value recognise_hard_sigmoid(Rewriter& r, const Pending& p) {
  const ClipAttrs& bounds = p.as<ClipAttrs>();
  const auto sum = bounds.low == 0 && bounds.high == 1 ? shifted(r, p.input(0)) : std::nullopt;
  const Node* n = sum ? r.producer(sum->other) : nullptr;
  if (!n || (n->op != &op::mul && n->op != &op::div)) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Value x = r.input(*n, i);
    const auto line = product_of(r, sum->other, x);
    if (!line || !line->is_one_of(x) || line->has_rest()) continue;
    if (!fits(r, std::max(sum->rank, line->rank), x)) continue;
    return r.emit(op::hard_sigmoid, {x}, AlphaBetaAttrs{line->coefficient, sum->number});
  }
  return {};
}

constexpr SimplifyRule kRules[] = {
    {&op::matmul, "attention recognised", recognise_attention},
    {&op::attention, "attention recognised", fuse_attention},
    {&op::mul, "scales into normalisations", scale_norm},
    {&op::add, "biases into layer normalisations", shift_norm},
    {&op::mul, "normalisations recognised", recognise_norm},
    {&op::div, "normalisations recognised", recognise_norm},
    {&op::add, "normalisations recognised", recognise_shifted_norm},
    {&op::mul, "GELU recognised", recognise_gelu},
    {&op::div, "GELU recognised", recognise_gelu},
    {&op::reciprocal, "sigmoid recognised", recognise_sigmoid},
    {&op::div, "sigmoid recognised", recognise_sigmoid},
    {&op::mul, "SiLU recognised", recognise_silu},
    {&op::div, "SiLU recognised", recognise_silu},
    {&op::mul, "hard swish, hard sigmoid recognised", recognise_hard},
    {&op::div, "hard swish, hard sigmoid recognised", recognise_hard},
    {&op::mul, "hard swish, hard sigmoid recognised", recognise_hard_swish},
    {&op::clip, "hard swish, hard sigmoid recognised", recognise_hard_sigmoid},
};

}  // namespace

std::span<const SimplifyRule> recognition_rules() { return kRules; }

}  // namespace hone
