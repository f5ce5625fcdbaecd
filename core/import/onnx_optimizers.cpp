// SPDX-License-Identifier: Apache-2.0
// The optimizers of ai.onnx.preview.training: one step, written out. Inputs are the learning rate
// R, the number T of steps so far, and then for each tensor X its gradient G and its states.
#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";

class Step {
 public:
  Step(ImportCtx& c, int kinds) : c_(c) {
    count_ = (c.size() - 2) / kinds;
    if (c.size() < 2 + kinds || 2 + count_ * kinds != c.size()) {
      c.fail("has {} inputs, expected 2 and then {} for each tensor", c.size(), kinds);
      count_ = 0;
    }
    norm_ = c.attr("norm_coefficient", 0.0);
  }
  int count() const { return count_; }
  DType dtype(int i) const { return c_.dtype(2 + i); }
  /// Tensor i of a kind: X is 0, G is 1, ...
  Value in(int kind, int i) const { return c_.in(2 + kind * count_ + i); }
  Value rate(int i) const { return as(c_.in(0), c_.dtype(0), i); }
  Value time(int i) const { return as(c_.in(1), c_.dtype(1), i); }
  Value number(double v, int i) const { return c_.scalar(v, dtype(i)); }
  Value add(Value a, Value b) const { return c_.emit(op::add, {a, b}); }
  Value sub(Value a, Value b) const { return c_.emit(op::sub, {a, b}); }
  Value mul(Value a, Value b) const { return c_.emit(op::mul, {a, b}); }
  Value div(Value a, Value b) const { return c_.emit(op::div, {a, b}); }
  Value sqrt(Value a) const { return c_.emit(op::sqrt, {a}); }
  Value scaled(Value a, double by, int i) const { return mul(a, number(by, i)); }
  /// G + norm_coefficient * X
  Value gradient(int i) const {
    return norm_ == 0 ? in(1, i) : add(in(1, i), scaled(in(0, i), norm_, i));
  }
  /// `first` at step 0, `later` afterwards.
  Value by_time(int i, Value first, Value later) const {
    return c_.emit(op::where, {c_.emit(op::greater, {time(i), number(0, i)}), later, first});
  }
  void set(int kind, int i, Value v) const { c_.set(kind * count_ + i, v, c_.known(2 + i)); }

 private:
  Value as(Value v, DType from, int i) const {
    return from == dtype(i) ? v : c_.emit(op::cast, {v}, CastAttrs{dtype(i)});
  }
  ImportCtx& c_;
  int count_ = 0;
  double norm_ = 0;
};

void import_adagrad(ImportCtx& c) {
  const Step s(c, 3);
  const double decay = c.attr("decay_factor", 0.0), epsilon = c.attr("epsilon", 0.0);
  for (int i = 0; i < s.count(); ++i) {
    const Value rate = s.div(s.rate(i), s.add(s.number(1, i), s.scaled(s.time(i), decay, i)));
    const Value g = s.gradient(i), squares = s.add(s.in(2, i), s.mul(g, g));
    const Value step = s.div(s.mul(rate, g), s.add(s.sqrt(squares), s.number(epsilon, i)));
    s.set(0, i, s.sub(s.in(0, i), step));
    s.set(1, i, squares);
  }
}

void import_adam(ImportCtx& c) {
  const Step s(c, 4);
  const double alpha = c.attr("alpha", 0.9), beta = c.attr("beta", 0.999);
  const double epsilon = c.attr("epsilon", 0.0), post = c.attr("norm_coefficient_post", 0.0);
  for (int i = 0; i < s.count(); ++i) {
    const Value g = s.gradient(i);
    const Value v = s.add(s.scaled(s.in(2, i), alpha, i), s.scaled(g, 1 - alpha, i));
    const Value h = s.add(s.scaled(s.in(3, i), beta, i), s.scaled(s.mul(g, g), 1 - beta, i));
    const auto bias = [&](double decay) {
      return s.sub(s.number(1, i), c.emit(op::pow, {s.number(decay, i), s.time(i)}));
    };
    const Value corrected = s.div(s.mul(s.rate(i), s.sqrt(bias(beta))), bias(alpha));
    const Value rate = s.by_time(i, s.rate(i), corrected);
    const Value step = s.div(s.mul(rate, v), s.add(s.sqrt(h), s.number(epsilon, i)));
    const Value x = s.sub(s.in(0, i), step);
    s.set(0, i, post == 0 ? x : s.scaled(x, 1 - post, i));
    s.set(1, i, v);
    s.set(2, i, h);
  }
}

void import_momentum(ImportCtx& c) {
  const Step s(c, 3);
  const double alpha = c.attr("alpha", 0.9), beta = c.attr("beta", 1.0);
  const bool nesterov = c.attr_enum("mode", {"standard", "nesterov"}, 0) != 0;
  for (int i = 0; i < s.count(); ++i) {
    const Value g = s.gradient(i);
    const Value share = s.by_time(i, s.number(1, i), s.number(beta, i));
    const Value v = s.add(s.scaled(s.in(2, i), alpha, i), s.mul(share, g));
    const Value step = nesterov ? s.add(g, s.scaled(v, alpha, i)) : v;
    s.set(0, i, s.sub(s.in(0, i), s.mul(s.rate(i), step)));
    s.set(1, i, v);
  }
}

constexpr ImportRule kImports[] = {
    {"Adagrad", 1, import_adagrad, nullptr, kDomain},
    {"Adam", 1, import_adam, nullptr, kDomain},
    {"Momentum", 1, import_momentum, nullptr, kDomain},
};

}  // namespace

std::span<const ImportRule> optimizers_imports() { return kImports; }
// Hone's own optimizers are no part of a model; a step that was imported is exported as written
// out.
std::span<const ExportRule> optimizers_exports() { return {}; }

}  // namespace hone::onnx
