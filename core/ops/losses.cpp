// SPDX-License-Identifier: Apache-2.0
// Losses written with operators.
#include "hone/ops.hpp"

namespace hone::loss {

namespace {

// Half floats are widened first: squares and sums of them overflow soon.
Value widened(Value x) { return ops::cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32); }

// Broadcasting (N, 1) against (N) gives N * N differences and a loss that means nothing: shapes
// must be equal.
bool comparable(std::string_view name, Value x, Value target) {
  if (!x.valid() || !target.valid()) return false;
  const Graph& g = x.builder().graph();
  if (!g.value(x.id()).typed || !g.value(target.id()).typed) return true;  // known when specialised
  if (!is_float(x.dtype()) || x.type() != target.type()) {
    x.builder().fail(invalid(
        "{}: the prediction is {}, the target {}; expected floating point of one type and shape",
        name, x.type(), target.type()));
    return false;
  }
  return true;
}

Value reduced(Value losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      return losses;
    case Reduction::sum:
      return ops::sum(losses, {{}, false});
    case Reduction::mean:
      break;
  }
  return ops::mean(losses, {{}, false});
}

bool positive(std::string_view name, Value x, double threshold) {
  if (threshold > 0) return true;
  x.builder().fail(invalid("{}: its threshold is {}, expected more than 0", name, threshold));
  return false;
}

}  // namespace

Value cross_entropy(Value logits, Value labels, CrossEntropyAttrs attrs, Value weights) {
  if (!logits.valid()) return {};
  return logits.builder().emit(op::cross_entropy, {logits, labels, weights}, attrs);
}

Value mse(Value x, Value target, Reduction reduction) {
  if (!comparable("mse", x, target)) return {};
  return reduced(ops::square(widened(x) - widened(target)), reduction);
}

Value l1(Value x, Value target, Reduction reduction) {
  if (!comparable("l1", x, target)) return {};
  return reduced(ops::abs(widened(x) - widened(target)), reduction);
}

Value smooth_l1(Value x, Value target, double beta, Reduction reduction) {
  if (beta == 0) return l1(x, target, reduction);
  if (!comparable("smooth_l1", x, target) || !positive("smooth_l1", x, beta)) return {};
  const Value d = widened(x) - widened(target), size = ops::abs(d);
  const Value near = ops::less(size, x.builder().scalar(beta, size.dtype()));
  return reduced(ops::where(near, ops::square(d) * (0.5 / beta), size - 0.5 * beta), reduction);
}

Value huber(Value x, Value target, double delta, Reduction reduction) {
  if (!comparable("huber", x, target) || !positive("huber", x, delta)) return {};
  const Value d = widened(x) - widened(target), size = ops::abs(d);
  const Value near = ops::less(size, x.builder().scalar(delta, size.dtype()));
  return reduced(ops::where(near, ops::square(d) * 0.5, (size - 0.5 * delta) * delta), reduction);
}

// t * softplus(-z) + (1 - t) * softplus(z): the same function, in which no term cancels another, so
// that small losses keep their digits, and every derivative is right at 0, too.
Value bce_with_logits(Value logits, Value target, Reduction reduction) {
  if (!comparable("bce_with_logits", logits, target)) return {};
  const Value z = widened(logits), t = widened(target);
  return reduced(t * ops::softplus(-z) + (1.0 - t) * ops::softplus(z), reduction);
}

}  // namespace hone::loss
