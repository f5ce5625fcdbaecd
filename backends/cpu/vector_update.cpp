// SPDX-License-Identifier: Apache-2.0
// The optimizers' updates in vectors: bit for bit what the reference kernels compute.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/vector_update.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_update.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

namespace hone::cpu {

// Numbers of an update, prepared once a step.
#ifndef HONE_VECTOR_UPDATE_ONCE
#define HONE_VECTOR_UPDATE_ONCE
struct AdamNumbers {
  float beta1, beta2, eps, fresh1, fresh2, size, inv_root, kept, decay;
};
struct SgdNumbers {
  float rate, decay, momentum, fresh;
  bool nesterov;
};
#endif

}  // namespace hone::cpu

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V Load(const float* p, size_t n) {
  return n == hn::Lanes(D()) ? hn::LoadU(D(), p) : hn::LoadN(D(), p, n);
}
HWY_INLINE void Store(V v, float* p, size_t n) {
  if (n == hn::Lanes(D()))
    hn::StoreU(v, D(), p);
  else
    hn::StoreN(v, D(), p, n);
}

void Adam(const AdamNumbers& k, const float* p, const float* first, const float* second,
          const float* grad, float* out, float* next_first, float* next_second, int64_t count) {
  const auto set = [](float x) { return hn::Set(D(), x); };
  const V beta1 = set(k.beta1), beta2 = set(k.beta2), fresh1 = set(k.fresh1),
          fresh2 = set(k.fresh2), size = set(k.size), inv_root = set(k.inv_root),
          kept = set(k.kept), decay = set(k.decay), eps = set(k.eps);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t i = 0; i < count; i += lanes) {
    const size_t n = static_cast<size_t>(std::min(lanes, count - i));
    const V w = Load(p + i, n);
    const V g = hn::Add(Load(grad + i, n), hn::Mul(decay, w));
    const V m = hn::Add(hn::Mul(beta1, Load(first + i, n)), hn::Mul(fresh1, g));
    const V v = hn::Add(hn::Mul(beta2, Load(second + i, n)), hn::Mul(hn::Mul(fresh2, g), g));
    Store(m, next_first + i, n);
    Store(v, next_second + i, n);
    const V below = hn::Add(hn::Mul(hn::Sqrt(v), inv_root), eps);
    Store(hn::Sub(hn::Mul(w, kept), hn::Div(hn::Mul(size, m), below)), out + i, n);
  }
}

// Without velocity where that is null.
void Sgd(const SgdNumbers& k, const float* p, const float* velocity, const float* grad, float* out,
         float* next, int64_t count) {
  const V rate = hn::Set(D(), k.rate), decay = hn::Set(D(), k.decay),
          momentum = hn::Set(D(), k.momentum), fresh = hn::Set(D(), k.fresh);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t i = 0; i < count; i += lanes) {
    const size_t n = static_cast<size_t>(std::min(lanes, count - i));
    const V w = Load(p + i, n);
    const V d = hn::Add(Load(grad + i, n), hn::Mul(decay, w));
    V step = d;
    if (velocity) {
      const V v = hn::Add(hn::Mul(momentum, Load(velocity + i, n)), hn::Mul(fresh, d));
      Store(v, next + i, n);
      step = k.nesterov ? hn::Add(d, hn::Mul(momentum, v)) : v;
    }
    Store(hn::Sub(w, hn::Mul(rate, step)), out + i, n);
  }
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(Adam);
HWY_EXPORT(Sgd);

constexpr int64_t kGrain = 16384;

// A scalar of any number type.
double number(DType t, const void* p) {
  switch (t) {
    case DType::f64:
      return *static_cast<const double*>(p);
    case DType::i64:
      return static_cast<double>(*static_cast<const int64_t*>(p));
    default:
      return static_cast<double>(*static_cast<const float*>(p));
  }
}
bool readable(DType t) { return t == DType::f64 || t == DType::i64 || t == DType::f32; }

Status check_step(double step) {
  return step >= 1 ? Status() : invalid("the step is {}; steps count from 1", step);
}

// Inputs param, m, v, grad, lr, step; outputs param, m, v.
class AdamKernel final : public Kernel {
 public:
  AdamKernel(const AdamAttrs& attrs, int64_t count, DType rate, DType step, std::string who)
      : attrs_(attrs), count_(count), rate_(rate), step_(step), who_(std::move(who)) {}

  Status run(const StepArgs& args) override {
    const double step = number(step_, args.operands[5]), rate = number(rate_, args.operands[4]);
    if (Status s = check_step(step); !s.ok()) return s.with_context(who_);
    const auto f = [](double x) { return static_cast<float>(x); };
    const AdamNumbers k = {f(attrs_.beta1),
                           f(attrs_.beta2),
                           f(attrs_.eps),
                           f(1 - attrs_.beta1),
                           f(1 - attrs_.beta2),
                           f(rate / (1 - std::pow(attrs_.beta1, step))),
                           f(1 / std::sqrt(1 - std::pow(attrs_.beta2, step))),
                           f(attrs_.decoupled ? 1 - rate * attrs_.weight_decay : 1),
                           f(attrs_.decoupled ? 0 : attrs_.weight_decay)};
    args.pool.parallel_for(count_, kGrain, [&](int64_t i, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(Adam)
      (k, args.in<float>(0) + i, args.in<float>(1) + i, args.in<float>(2) + i,
       args.in<float>(3) + i, args.out<float>(6) + i, args.out<float>(7) + i,
       args.out<float>(8) + i, end - i);
    });
    return {};
  }

 private:
  AdamAttrs attrs_;
  int64_t count_;
  DType rate_, step_;
  std::string who_;
};

// Inputs param, velocity?, grad, lr, step?; outputs param, velocity?.
class SgdKernel final : public Kernel {
 public:
  SgdKernel(const SgdAttrs& attrs, int64_t count, bool velocity, DType rate, DType step,
            size_t inputs, std::string who)
      : attrs_(attrs),
        count_(count),
        velocity_(velocity),
        rate_(rate),
        step_(step),
        inputs_(inputs),
        who_(std::move(who)) {}

  Status run(const StepArgs& args) override {
    double step = 2;
    if (inputs_ > 4 && args.operands[4]) {
      step = number(step_, args.operands[4]);
      if (Status s = check_step(step); !s.ok()) return s.with_context(who_);
    }
    // PyTorch's first velocity is the gradient itself.
    const SgdNumbers k = {
        static_cast<float>(number(rate_, args.operands[3])),
        static_cast<float>(attrs_.weight_decay), static_cast<float>(attrs_.momentum),
        static_cast<float>(step == 1 ? 1 : 1 - attrs_.dampening), attrs_.nesterov};
    args.pool.parallel_for(count_, kGrain, [&](int64_t i, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(Sgd)
      (k, args.in<float>(0) + i, velocity_ ? args.in<float>(1) + i : nullptr, args.in<float>(2) + i,
       args.out<float>(inputs_) + i, velocity_ ? args.out<float>(inputs_ + 1) + i : nullptr,
       end - i);
    });
    return {};
  }

 private:
  SgdAttrs attrs_;
  int64_t count_;
  bool velocity_;
  DType rate_, step_;
  size_t inputs_;
  std::string who_;
};

}  // namespace

bool accepts_update(const Graph& g, const Node& n) {
  const size_t rate = n.op == &op::adam_update ? 4 : 3;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNone) continue;
    const DType t = g.type(n.inputs[i]).dtype;
    if (i < rate ? t != DType::f32 : !readable(t)) return false;
  }
  return g.type(n.inputs[0]).numel() > 0;
}

Status lower_update(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  const auto dtype = [&](size_t i) {
    return i < n.inputs.size() && n.inputs[i] != kNone ? g.type(n.inputs[i]).dtype : DType::f32;
  };
  const int64_t count = g.type(n.inputs[0]).numel();
  std::unique_ptr<Kernel> kernel;
  if (n.op == &op::adam_update)
    kernel =
        std::make_unique<AdamKernel>(n.attrs.as<AdamAttrs>(), count, dtype(4), dtype(5), label(n));
  else
    kernel = std::make_unique<SgdKernel>(n.attrs.as<SgdAttrs>(), count, n.inputs[1] != kNone,
                                         dtype(3), dtype(4), n.inputs.size(), label(n));
  Step s = plain_step(to, id, std::move(kernel), "vector.update");
  for (size_t k = 0; k < n.outputs.size(); ++k)
    if (n.inputs[k] != kNone && std::count(s.reads.begin(), s.reads.end(), s.reads[k]) == 1)
      s.may_share.push_back({static_cast<int32_t>(k), static_cast<int32_t>(k)});
  to.add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
