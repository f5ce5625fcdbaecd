// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation written out: d / sqrt(mean(d^2) + eps), where d is x or x - mean(x).
#include <algorithm>

#include "core/passes/simplify_products.hpp"

namespace hone {

namespace {

// How many of the last axes of x a mean is taken over; 0 when it is over others, drops them, or
// when there may be nothing in them, which the operators refuse.
int last_axes(Rewriter& r, const Node& mean, Value x) {
  const ReduceAttrs& a = mean.attrs.as<ReduceAttrs>();
  const Facts f = r.facts(x);
  if (!a.keepdims || a.axes.empty() || !f.has_rank()) return 0;
  std::vector<int64_t> axes = a.axes;
  for (int64_t& axis : axes) axis = axis < 0 ? axis : axis - f.rank();
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i) - static_cast<int64_t>(axes.size())) return 0;
  if (static_cast<int>(axes.size()) > f.rank()) return 0;
  for (size_t i = f.extents->size() - axes.size(); i < f.extents->size(); ++i)
    if ((*f.extents)[i] < 1) return 0;
  return static_cast<int>(axes.size());
}

// v = mean(d^2) + eps.
struct MeanSquare {
  Value d;
  double eps = 0;
  int axes = 0;
};

std::optional<MeanSquare> mean_square(Rewriter& r, Value v) {
  const auto sum = shifted(r, v);
  const Node* mean = sum ? r.producer(sum->other, op::mean) : nullptr;
  if (!mean || !(sum->number > 0)) return std::nullopt;
  const auto square = product_of(r, r.input(*mean, 0));
  if (!square || square->factors.size() != 2 || square->has_rest() || square->coefficient != 1)
    return std::nullopt;
  const Value d = square->factors[0];
  if (d.id() != square->factors[1].id()) return std::nullopt;
  const int axes = last_axes(r, *mean, d);
  if (axes == 0 || !fits(r, std::max(sum->rank, square->rank), d)) return std::nullopt;
  return MeanSquare{d, sum->number, axes};
}

// x when d = x - mean(x) over as many last axes.
Value centred(Rewriter& r, Value d, int axes) {
  const Node* n = r.producer(d, op::sub);
  const Value x = n ? r.input(*n, 0) : Value();
  const Node* mean = n ? r.producer(r.input(*n, 1), op::mean) : nullptr;
  if (!mean || r.input(*mean, 0).id() != x.id() || last_axes(r, *mean, x) != axes) return {};
  return x;
}

bool is_floating(Rewriter& r, Value x) {
  const auto t = r.facts(x).dtype;
  return t && is_float(*t);
}

// Whether v is a scale or bias of the last `axes` axes of x.
bool is_parameter(Rewriter& r, Value v, Value x, int64_t axis) {
  const Facts p = r.facts(v), f = r.facts(x);
  if (!p.has_rank() || !f.has_rank() || axis >= 0 || p.rank() != -axis || p.rank() > f.rank())
    return false;
  for (int i = 0; i < p.rank(); ++i) {
    const int64_t e = (*p.extents)[static_cast<size_t>(i)];
    if (e < 0 || e != (*f.extents)[static_cast<size_t>(f.rank() - p.rank() + i)]) return false;
  }
  return true;
}

// With its statistics, which importing gives it too.
Value layer_norm(Rewriter& r, Value x, Value scale, Value bias, const NormAttrs& attrs) {
  const Value all[] = {x, scale, bias};
  const size_t count = bias.valid() ? 3 : scale.valid() ? 2 : 1;
  const std::vector<Value> outs = r.emit_all(op::layer_norm, std::span(all).first(count), attrs, 3);
  return outs.empty() ? Value() : outs[0];
}

}  // namespace

// The rest of the product multiplies the normalised value.
Value recognise_norm(Rewriter& r, const Pending& p) {
  const auto whole = product_of(r, p);
  if (!whole || whole->roots.size() != 1) return {};
  const auto square = mean_square(r, whole->roots[0]);
  if (!square) return {};
  auto rest = product_of(r, p, square->d);
  if (!rest || !rest->take(square->d) || rest->coefficient != 1 || !rest->divisors.empty() ||
      rest->roots.size() != 1 || rest->factors.size() > 1 || !fits(r, rest->rank, square->d))
    return {};
  const Value x = centred(r, square->d, square->axes);
  const NormAttrs attrs{square->eps, -square->axes};
  if (!is_floating(r, square->d)) return {};
  const Value y =
      x.valid() ? layer_norm(r, x, {}, {}, attrs) : r.emit(op::rms_norm, {square->d}, attrs);
  return rest->factors.empty() ? y : r.emit(op::mul, {y, rest->factors[0]});
}

// x m + (b - mean(x) m) with m = g / sqrt(var + eps), as TensorFlow writes it.
Value recognise_shifted_norm(Rewriter& r, const Pending& p) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* scaled = r.producer(p.input(i), op::mul);
    const Node* shift = r.producer(p.input(1 - i), op::sub);
    const Node* moved = shift ? r.producer(r.input(*shift, 1), op::mul) : nullptr;
    if (!scaled || !moved) continue;
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const Value x = r.input(*scaled, k), m = r.input(*scaled, 1 - k);
      const bool second = r.input(*moved, 1).id() == m.id();
      if (!second && r.input(*moved, 0).id() != m.id()) continue;
      const Node* mean = r.producer(r.input(*moved, second ? 0 : 1), op::mean);
      const auto factor = product_of(r, m);
      if (!mean || !factor || factor->roots.size() != 1 || factor->factors.size() > 1 ||
          !factor->divisors.empty() || factor->coefficient != 1)
        continue;
      const auto square = mean_square(r, factor->roots[0]);
      if (!square || r.input(*mean, 0).id() != x.id() || !is_floating(r, x) ||
          last_axes(r, *mean, x) != square->axes || !fits(r, factor->rank, x) ||
          centred(r, square->d, square->axes).id() != x.id())
        continue;
      const Value bias = r.input(*shift, 0);
      Value y = layer_norm(r, x, {}, {}, NormAttrs{square->eps, -square->axes});
      if (!factor->factors.empty()) y = r.emit(op::mul, {y, factor->factors[0]});
      return r.emit(op::add, {y, bias});
    }
  }
  return {};
}

// norm(x) * scale, when neither scale nor bias is there yet.
Value scale_norm(Rewriter& r, const Pending& p) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* n = r.producer(p.input(i));
    if (!n || (n->op != &op::layer_norm && n->op != &op::rms_norm) || n->inputs.size() != 1)
      continue;
    const Value x = r.input(*n, 0), scale = p.input(1 - i);
    if (!is_parameter(r, scale, x, n->attrs.as<NormAttrs>().axis)) continue;
    const NormAttrs attrs = n->attrs.as<NormAttrs>();
    if (n->op == &op::layer_norm) return layer_norm(r, x, scale, {}, attrs);
    return r.emit(op::rms_norm, {x, scale}, attrs);
  }
  return {};
}

// layer_norm(x, scale?) + bias.
Value shift_norm(Rewriter& r, const Pending& p) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* n = r.producer(p.input(i), op::layer_norm);
    if (!n || n->inputs.size() > 2) continue;
    const Value x = r.input(*n, 0), bias = p.input(1 - i);
    if (!is_parameter(r, bias, x, n->attrs.as<NormAttrs>().axis)) continue;
    const NormAttrs attrs = n->attrs.as<NormAttrs>();
    return layer_norm(r, x, r.input(*n, 1), bias, attrs);
  }
  return {};
}

}  // namespace hone
