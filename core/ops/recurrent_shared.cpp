// SPDX-License-Identifier: Apache-2.0
// Activations of recurrent cells, and the pieces their loops over time are built from.
#include <cmath>

#include "core/ops/recurrent.hpp"

namespace hone::recurrent {

namespace {

constexpr std::string_view kNames[] = {
    "relu",        "tanh",         "sigmoid", "affine",   "leaky_relu", "thresholded_relu",
    "scaled_tanh", "hard_sigmoid", "elu",     "softsign", "softplus"};

std::string_view name_at(std::string_view list, int index) {
  for (; index > 0; --index) {
    const size_t comma = list.find(',');
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return list.substr(0, list.find(','));
}

template <class S, class F>
void map(S* x, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
}

template <class S>
void apply_to(const Activation& act, S* x, int64_t n) {
  const S a = static_cast<S>(act.alpha), b = static_cast<S>(act.beta);
  if (act.clip > 0) {
    const S c = static_cast<S>(act.clip);
    map(x, n, [c](S v) { return v > c ? c : v < -c ? -c : v; });
  }
  switch (act.kind) {
    case Kind::relu:
      return map(x, n, [](S v) { return v < 0 ? S(0) : v; });
    case Kind::tanh:
      return map(x, n, [](S v) { return std::tanh(v); });
    case Kind::sigmoid:
      // As the operator `sigmoid` has it, to the bit: a clipped argument is known by its result.
      return map(x, n, [](S v) {
        const S e = std::exp(-std::fabs(v));
        return (v < 0 ? e : S(1)) / (S(1) + e);
      });
    case Kind::affine:
      return map(x, n, [a, b](S v) { return a * v + b; });
    case Kind::leaky_relu:
      return map(x, n, [a](S v) { return v < 0 ? a * v : v; });
    case Kind::thresholded_relu:
      return map(x, n, [a](S v) { return v > a ? v : S(0); });
    case Kind::scaled_tanh:
      return map(x, n, [a, b](S v) { return a * std::tanh(b * v); });
    case Kind::hard_sigmoid:
      return map(x, n, [a, b](S v) { return std::min(S(1), std::max(S(0), a * v + b)); });
    case Kind::elu:
      return map(x, n, [a](S v) { return v < 0 ? a * std::expm1(v) : v; });
    case Kind::softsign:
      return map(x, n, [](S v) { return v / (S(1) + std::fabs(v)); });
    case Kind::softplus:
      return map(x, n,
                 [](S v) { return (v > 0 ? v : S(0)) + std::log1p(std::exp(-std::fabs(v))); });
  }
}

template <class S, class F>
void scale(const S* y, S* g, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) g[i] *= f(y[i]);
}

template <class S>
void scale_by_slope(const Activation& act, const S* y, S* g, int64_t n) {
  const S a = static_cast<S>(act.alpha), b = static_cast<S>(act.beta);
  if (act.clip > 0) {
    // An argument at the bound gave exactly what the bound itself gives.
    S ends[2] = {static_cast<S>(act.clip), static_cast<S>(-act.clip)};
    apply_to(act, ends, 2);
    scale(y, g, n, [&](S v) { return v == ends[0] || v == ends[1] ? S(0) : S(1); });
  }
  switch (act.kind) {
    case Kind::relu:
      return scale(y, g, n, [](S v) { return v > 0 ? S(1) : S(0); });
    case Kind::tanh:
      return scale(y, g, n, [](S v) { return S(1) - v * v; });
    case Kind::sigmoid:
      return scale(y, g, n, [](S v) { return v * (S(1) - v); });
    case Kind::affine:
      return scale(y, g, n, [a](S) { return a; });
    case Kind::leaky_relu:
      return scale(y, g, n, [a](S v) { return v < 0 ? a : S(1); });
    case Kind::thresholded_relu:
      return scale(y, g, n, [](S v) { return v != 0 ? S(1) : S(0); });
    case Kind::scaled_tanh:
      return scale(y, g, n, [a, b](S v) { return b * (a - v * v / a); });
    case Kind::hard_sigmoid:
      return scale(y, g, n, [a](S v) { return v > 0 && v < 1 ? a : S(0); });
    case Kind::elu:
      return scale(y, g, n, [a](S v) { return v < 0 ? v + a : S(1); });
    case Kind::softsign:
      return scale(y, g, n, [](S v) { return (S(1) - std::fabs(v)) * (S(1) - std::fabs(v)); });
    case Kind::softplus:
      return scale(y, g, n, [](S v) { return -std::expm1(-v); });
  }
}

Value step(Value condition, double then, double otherwise, Value like) {
  return ops::where(condition, ops::fill(like.builder(), like.type(), then),
                    ops::fill(like.builder(), like.type(), otherwise));
}
Value zero(Value like) { return like.builder().scalar(0, like.dtype()); }

}  // namespace

int count_names(std::string_view list) {
  return 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
}

RecurrentAttrs cell_attrs(const RecurrentAttrs& attrs, int direction, std::string_view defaults) {
  RecurrentAttrs one = attrs;
  one.batch_first = false;
  one.direction = attrs.direction == Direction::reverse || direction == 1 ? Direction::reverse
                                                                          : Direction::forward;
  if (attrs.activations.empty()) return one;
  const int each = count_names(defaults);
  one.activations.clear();
  one.alpha.clear();
  one.beta.clear();
  for (int i = direction * each; i < (direction + 1) * each; ++i) {
    if (!one.activations.empty()) one.activations += ',';
    one.activations += name_at(attrs.activations, i);
    const size_t at = static_cast<size_t>(i);
    if (at < attrs.alpha.size()) one.alpha.push_back(attrs.alpha[at]);
    if (at < attrs.beta.size()) one.beta.push_back(attrs.beta[at]);
  }
  return one;
}

Result<Activations> activations_of(const RecurrentAttrs& attrs, std::string_view defaults) {
  const std::string_view list = attrs.activations.empty() ? defaults : attrs.activations;
  const int count = count_names(defaults);
  if (count_names(list) != count)
    return invalid("activations are '{}', expected {} names", list, count);
  for (const std::vector<double>* v : {&attrs.alpha, &attrs.beta})
    if (!v->empty() && v->size() != static_cast<size_t>(count))
      return invalid("{} alphas or betas for {} activations", v->size(), count);
  Activations out;
  for (int i = 0; i < count; ++i) {
    const std::string_view name = name_at(list, i);
    const auto found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames)) return invalid("there is no activation '{}'", name);
    const size_t at = static_cast<size_t>(i);
    Activation& a = out[at];
    a.kind = static_cast<Kind>(found - std::begin(kNames));
    a.clip = attrs.clip;
    if (!attrs.alpha.empty()) a.alpha = attrs.alpha[at];
    if (!attrs.beta.empty()) a.beta = attrs.beta[at];
    if ((a.kind == Kind::leaky_relu || a.kind == Kind::elu) && a.alpha < 0)
      return invalid("{} with alpha {}: a negative one is not offered", name, a.alpha);
  }
  return out;
}

void apply(const Activation& act, double* x, int64_t n) { apply_to(act, x, n); }
void apply(const Activation& act, float* x, int64_t n) {
  act.fast ? act.fast(x, n) : apply_to(act, x, n);
}
void use(const FloatActivations* fast, Activations& act) {
  for (Activation& a : act) {
    if (!fast || a.clip > 0) continue;
    if (a.kind == Kind::sigmoid) a.fast = fast->sigmoid;
    if (a.kind == Kind::tanh) a.fast = fast->tanh;
  }
}
void times_slope(const Activation& act, const double* y, double* g, int64_t n) {
  scale_by_slope(act, y, g, n);
}
void times_slope(const Activation& act, const float* y, float* g, int64_t n) {
  scale_by_slope(act, y, g, n);
}

Value apply(const Activation& act, Value x) {
  if (!x.valid()) return x;
  Builder& b = x.builder();
  if (act.clip > 0) x = ops::clip(x, -act.clip, act.clip);
  switch (act.kind) {
    case Kind::relu:
      return ops::relu(x);
    case Kind::tanh:
      return ops::tanh(x);
    case Kind::sigmoid:
      return ops::sigmoid(x);
    case Kind::affine:
      return x * act.alpha + act.beta;
    case Kind::leaky_relu:
      return b.emit(op::leaky_relu, {x}, AlphaAttrs{act.alpha});
    case Kind::thresholded_relu:
      return ops::where(ops::greater(x, b.scalar(act.alpha, x.dtype())), x, zero(x));
    case Kind::scaled_tanh:
      return ops::tanh(x * act.beta) * act.alpha;
    case Kind::hard_sigmoid:
      return ops::clip(x * act.alpha + act.beta, 0, 1);
    case Kind::elu:
      return b.emit(op::elu, {x}, AlphaAttrs{act.alpha});
    case Kind::softsign:
      return x / (ops::abs(x) + 1.0);
    case Kind::softplus:
      return ops::softplus(x);
  }
  return x;
}

Value slope(const Activation& act, Value y) {
  if (!y.valid()) return y;
  Value s;
  switch (act.kind) {
    case Kind::relu:
      s = step(ops::greater(y, zero(y)), 1, 0, y);
      break;
    case Kind::tanh:
      s = 1.0 - y * y;
      break;
    case Kind::sigmoid:
      s = y * (1.0 - y);
      break;
    case Kind::affine:
      s = ops::fill(y.builder(), y.type(), act.alpha);
      break;
    case Kind::leaky_relu:
      s = step(ops::less(y, zero(y)), act.alpha, 1, y);
      break;
    case Kind::thresholded_relu:
      s = step(ops::equal(y, zero(y)), 0, 1, y);
      break;
    case Kind::scaled_tanh:
      s = (act.alpha - y * y / act.alpha) * act.beta;
      break;
    case Kind::hard_sigmoid:
      s = step(ops::logical_and(ops::greater(y, zero(y)),
                                ops::less(y, y.builder().scalar(1, y.dtype()))),
               act.alpha, 0, y);
      break;
    case Kind::elu:
      s = ops::where(ops::less(y, zero(y)), y + act.alpha, ops::ones_like(y));
      break;
    case Kind::softsign:
      s = ops::square(1.0 - ops::abs(y));
      break;
    case Kind::softplus:
      s = 1.0 - ops::exp(-y);
      break;
  }
  if (act.clip <= 0) return s;
  Activation inner = act;
  inner.clip = 0;
  for (double end : {act.clip, -act.clip}) {
    const Value bound = apply(inner, y.builder().scalar(end, y.dtype()));
    s = ops::where(ops::equal(y, bound), ops::zeros_like(s), s);
  }
  return s;
}

Value at_time(Value x, int64_t t) {
  if (!x.valid()) return x;
  const Shape whole = x.shape();
  return ops::reshape(ops::slice(x, 0, t, t + 1), Shape(whole.dims().subspan(1)));
}

Value stack(std::span<const Value> parts) {
  std::vector<Value> rows;
  for (const Value& p : parts) {
    if (!p.valid()) return {};
    Shape s = p.shape();
    s.insert(0, 1);
    rows.push_back(ops::reshape(p, s));
  }
  return ops::concat(rows, 0);
}

Value within(Value lengths, int64_t t) {
  if (!lengths.valid()) return {};
  const Value inside =
      ops::greater(lengths, lengths.builder().scalar(static_cast<double>(t), lengths.dtype()));
  return ops::reshape(inside, {lengths.shape()[0], 1});
}

Value choose(Value mask, Value now, Value otherwise) {
  return mask.valid() ? ops::where(mask, now, otherwise) : now;
}

Value previous(Value h, Value h0, bool reverse) {
  if (!h.valid() || !h0.valid()) return {};
  Shape one = h0.shape();
  one.insert(0, 1);
  const int64_t steps = h.shape()[0];
  const Value first = ops::reshape(h0, one);
  if (steps == 0) return h;
  if (steps == 1) return first;
  const Value parts[] = {reverse ? ops::slice(h, 0, 1, steps) : first,
                         reverse ? first : ops::slice(h, 0, 0, steps - 1)};
  return ops::concat(parts, 0);
}

Value mask_of_all(Value lengths, int64_t steps) {
  if (!lengths.valid()) return {};
  std::vector<Value> masks;
  for (int64_t t = 0; t < steps; ++t) masks.push_back(within(lengths, t));
  return stack(masks);
}

Status need_shape(const InferCtx& c, int i, std::string_view name, const Shape& shape) {
  if (!c.has(i)) return {};
  HONE_TRY(need_same_dtype(c, 0, i));
  if (c.shape(i) == shape) return {};
  return c.error("{} has shape {}, expected {}", name, c.shape(i), shape);
}

Status need_lengths(const InferCtx& c, int i, int64_t batch) {
  if (!c.has(i)) return {};
  HONE_TRY(need(c, i, Accepts::indices));
  if (c.shape(i) == Shape{batch}) return {};
  return c.error("the sequence lengths have shape {}, expected [{}]", c.shape(i), batch);
}

template <class S>
void plain_product(const ProductCall<S>& p) {
  constexpr int64_t kTile = 16;
  for (int64_t r = 0; r < p.rows; ++r) {
    const S* a = p.a + r * p.a_stride;
    S* c = p.c + r * p.c_stride;
    for (int64_t j0 = 0; j0 < p.cols; j0 += kTile) {
      const int64_t n = std::min(kTile, p.cols - j0);
      S sums[kTile] = {};
      if (p.trans_b) {
        for (int64_t j = 0; j < n; ++j) {
          const S* b = p.b + (j0 + j) * p.b_stride;
          S lanes[4] = {};
          int64_t k = 0;
          for (; k + 4 <= p.inner; k += 4)
            for (int64_t l = 0; l < 4; ++l) lanes[l] += a[k + l] * b[k + l];
          for (; k < p.inner; ++k) lanes[0] += a[k] * b[k];
          sums[j] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
        }
      } else {
        for (int64_t k = 0; k < p.inner; ++k) {
          const S left = a[k];
          const S* b = p.b + k * p.b_stride + j0;
          for (int64_t j = 0; j < n; ++j) sums[j] += left * b[j];
        }
      }
      for (int64_t j = 0; j < n; ++j) c[j0 + j] = p.add ? c[j0 + j] + sums[j] : sums[j];
    }
  }
}
template void plain_product<float>(const ProductCall<float>&);
template void plain_product<double>(const ProductCall<double>&);

}  // namespace hone::recurrent
