// SPDX-License-Identifier: Apache-2.0
// Optimizer steps as operators: new parameter and new state from old ones, the gradient and the
// learning rate. Each output may share its bytes with the input at its place. Moments and
// velocities are f32 (f64 for f64 parameters), whatever the parameter is; gradients have the
// parameter's type or that of the moments.
#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

namespace {

DType moment_dtype(DType parameter) { return parameter == DType::f64 ? DType::f64 : DType::f32; }

Status need_present(const InferCtx& c, int input, std::string_view name) {
  return c.has(input) ? Status() : c.error("{} (input {}) is missing", name, input);
}

Status need_moment(const InferCtx& c, int input, std::string_view name) {
  HONE_TRY(need_present(c, input, name));
  const TensorType want{moment_dtype(c.dtype(0)), c.shape(0)};
  if (c.in(input) == want) return {};
  return c.error("{} is {}, expected {} for a parameter {}", name, c.in(input), want, c.in(0));
}

Status need_gradient(const InferCtx& c, int input) {
  HONE_TRY(need_present(c, input, "the gradient"));
  const bool dtype_ok = c.dtype(input) == c.dtype(0) || c.dtype(input) == moment_dtype(c.dtype(0));
  if (dtype_ok && c.shape(input) == c.shape(0)) return {};
  return c.error("the gradient is {}, the parameter {}", c.in(input), c.in(0));
}

Status need_rate(const InferCtx& c, int input) {
  HONE_TRY(need_present(c, input, "the learning rate"));
  if (is_float(c.dtype(input)) && c.shape(input).rank() == 0) return {};
  return c.error("the learning rate is {}, expected a floating-point scalar", c.in(input));
}

Status need_step(const InferCtx& c, int input) {
  HONE_TRY(need_present(c, input, "the step"));
  const DType t = c.dtype(input);
  if ((t == DType::i64 || t == DType::f32) && c.shape(input).rank() == 0) return {};
  return c.error("the step is {}, expected a scalar i64 or f32", c.in(input));
}

double number(const ConstTensorView& v) {
  return dispatch(v.type.dtype, [&]<class T>() {
    if constexpr (is_float_type<T>)
      return static_cast<double>(static_cast<accumulator_t<T>>(*v.as<T>()));
    else
      return static_cast<double>(*v.as<T>());
  });
}

Status check_step(double step) {
  return step >= 1 ? Status() : invalid("the step is {}; steps count from 1", step);
}

// Calls f<T, G>(): the parameter's type and the gradient's.
template <class F>
void dispatch_update(DType parameter, DType gradient, F f) {
  dispatch_float(parameter, [&]<class T>() {
    if (gradient == parameter)
      f.template operator()<T, T>();
    else
      f.template operator()<T, accumulator_t<T>>();
  });
}

template <class F>
void for_elements(const KernelArgs& args, F f) {
  args.pool.parallel_for(args.in[0].numel(), 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// ---- SGD

enum Sgd : int { kParam, kVelocity, kGrad, kRate, kStep };

Status infer_sgd(InferCtx& c) {
  const SgdAttrs& attrs = c.attrs<SgdAttrs>();
  HONE_TRY(need(c, kParam, Accepts::floats));
  HONE_TRY(need_gradient(c, kGrad));
  HONE_TRY(need_rate(c, kRate));
  if (c.has(kStep)) HONE_TRY(need_step(c, kStep));
  if (attrs.nesterov && (attrs.momentum <= 0 || attrs.dampening != 0))
    return c.error("nesterov needs momentum above 0 and no dampening, got {} and {}",
                   attrs.momentum, attrs.dampening);
  c.out(c.in(kParam));
  if (!c.has(kVelocity)) {
    if (attrs.momentum != 0)
      return c.error("momentum is {}, but there is no velocity (input 1)", attrs.momentum);
    return {};
  }
  if (attrs.momentum != 0 && attrs.dampening != 0)
    HONE_TRY(need_present(c, kStep, "dampening leaves the first step out, so the step"));
  HONE_TRY(need_moment(c, kVelocity, "the velocity"));
  c.out(c.in(kVelocity));
  return {};
}

// PyTorch's first velocity is the gradient itself. A velocity that starts at zero gives the same,
// except for dampening.
double undamped(const SgdAttrs& attrs, double step) { return step == 1 ? 1 : 1 - attrs.dampening; }

template <class T, class G>
void sgd(const KernelArgs& args, double step) {
  using S = accumulator_t<T>;
  const SgdAttrs& attrs = args.attrs.as<SgdAttrs>();
  const S rate = static_cast<S>(number(args.in[kRate])), decay = static_cast<S>(attrs.weight_decay);
  const S momentum = static_cast<S>(attrs.momentum), fresh = static_cast<S>(undamped(attrs, step));
  const T* p = args.input<T>(kParam);
  const G* grad = args.input<G>(kGrad);
  T* out = args.output<T>(0);
  if (!args.has(kVelocity)) {
    for_elements(args, [&](int64_t i) {
      const S w = static_cast<S>(p[i]), d = static_cast<S>(grad[i]) + decay * w;
      out[i] = static_cast<T>(w - rate * d);
    });
    return;
  }
  const S* velocity = args.input<S>(kVelocity);
  S* next = args.output<S>(1);
  for_elements(args, [&](int64_t i) {
    const S w = static_cast<S>(p[i]), d = static_cast<S>(grad[i]) + decay * w;
    const S v = momentum * velocity[i] + fresh * d;
    next[i] = v;
    out[i] = static_cast<T>(w - rate * (attrs.nesterov ? d + momentum * v : v));
  });
}

Status sgd_kernel(const KernelArgs& args) {
  double step = 2;
  if (args.has(kStep)) {
    step = number(args.in[kStep]);
    HONE_TRY(check_step(step));
  }
  dispatch_update(args.in[kParam].type.dtype, args.in[kGrad].type.dtype,
                  [&]<class T, class G>() { sgd<T, G>(args, step); });
  return {};
}

// The parameter and gradient in the type of the moments.
struct Wide {
  DType type;
  Value param, grad, rate;
};
Wide widened(DecomposeCtx& c, int grad, int rate) {
  const DType t = moment_dtype(c.type(0).dtype);
  return {t, ops::cast(c.in(0), t), ops::cast(c.in(grad), t), ops::cast(c.in(rate), t)};
}

void decompose_sgd(DecomposeCtx& c) {
  const SgdAttrs& attrs = c.attrs<SgdAttrs>();
  const Wide w = widened(c, kGrad, kRate);
  Value d = attrs.weight_decay == 0 ? w.grad : w.grad + w.param * attrs.weight_decay;
  if (c.has(kVelocity)) {
    Value fresh = d;
    if (attrs.momentum != 0 && attrs.dampening != 0) {
      const Value first = ops::equal(c.in(kStep), c.b.scalar(1, c.type(kStep).dtype));
      fresh = d * ops::where(first, c.b.scalar(1, w.type), c.b.scalar(1 - attrs.dampening, w.type));
    } else if (attrs.dampening != 0) {
      fresh = d * (1 - attrs.dampening);
    }
    const Value v = c.in(kVelocity)*attrs.momentum + fresh;
    c.set(1, v);
    d = attrs.nesterov ? d + v * attrs.momentum : v;
  }
  c.set(0, ops::cast(w.param - w.rate * d, c.type(0).dtype));
}

// ---- Adam

enum Adam : int { kAdamParam, kFirst, kSecond, kAdamGrad, kAdamRate, kAdamStep };

Status infer_adam(InferCtx& c) {
  const AdamAttrs& attrs = c.attrs<AdamAttrs>();
  HONE_TRY(need(c, kAdamParam, Accepts::floats));
  HONE_TRY(need_moment(c, kFirst, "the first moment"));
  HONE_TRY(need_moment(c, kSecond, "the second moment"));
  HONE_TRY(need_gradient(c, kAdamGrad));
  HONE_TRY(need_rate(c, kAdamRate));
  HONE_TRY(need_step(c, kAdamStep));
  for (double beta : {attrs.beta1, attrs.beta2})
    if (!(beta >= 0 && beta < 1)) return c.error("a beta is {}, outside [0, 1)", beta);
  c.out(c.in(kAdamParam));
  c.out(c.in(kFirst));
  c.out(c.in(kSecond));
  return {};
}

template <class T, class G>
void adam(const KernelArgs& args, double step) {
  using S = accumulator_t<T>;
  const AdamAttrs& attrs = args.attrs.as<AdamAttrs>();
  const double rate = number(args.in[kAdamRate]);
  const S beta1 = static_cast<S>(attrs.beta1), beta2 = static_cast<S>(attrs.beta2),
          eps = static_cast<S>(attrs.eps);
  const S fresh1 = static_cast<S>(1 - attrs.beta1), fresh2 = static_cast<S>(1 - attrs.beta2);
  const S size = static_cast<S>(rate / (1 - std::pow(attrs.beta1, step)));
  const S inv_root = static_cast<S>(1 / std::sqrt(1 - std::pow(attrs.beta2, step)));
  const S kept = static_cast<S>(attrs.decoupled ? 1 - rate * attrs.weight_decay : 1);
  const S decay = static_cast<S>(attrs.decoupled ? 0 : attrs.weight_decay);
  const T* p = args.input<T>(kAdamParam);
  const S *first = args.input<S>(kFirst), *second = args.input<S>(kSecond);
  const G* grad = args.input<G>(kAdamGrad);
  T* out = args.output<T>(0);
  S *next_first = args.output<S>(1), *next_second = args.output<S>(2);
  for_elements(args, [&](int64_t i) {
    const S w = static_cast<S>(p[i]), g = static_cast<S>(grad[i]) + decay * w;
    const S m = beta1 * first[i] + fresh1 * g, v = beta2 * second[i] + fresh2 * g * g;
    next_first[i] = m;
    next_second[i] = v;
    out[i] = static_cast<T>(w * kept - size * m / (std::sqrt(v) * inv_root + eps));
  });
}

Status adam_kernel(const KernelArgs& args) {
  const double step = number(args.in[kAdamStep]);
  HONE_TRY(check_step(step));
  dispatch_update(args.in[kAdamParam].type.dtype, args.in[kAdamGrad].type.dtype,
                  [&]<class T, class G>() { adam<T, G>(args, step); });
  return {};
}

void decompose_adam(DecomposeCtx& c) {
  const AdamAttrs& attrs = c.attrs<AdamAttrs>();
  const Wide w = widened(c, kAdamGrad, kAdamRate);
  const Value step = ops::cast(c.in(kAdamStep), DType::f64);
  const auto corrected = [&](double beta) {
    return 1.0 - ops::pow(c.b.scalar(beta, DType::f64), step);
  };
  const Value correction1 = ops::cast(corrected(attrs.beta1), w.type);
  const Value inv_root = ops::cast(ops::rsqrt(corrected(attrs.beta2)), w.type);
  const Value g =
      attrs.decoupled || attrs.weight_decay == 0 ? w.grad : w.grad + w.param * attrs.weight_decay;
  const Value m = c.in(kFirst)*attrs.beta1 + g * (1 - attrs.beta1);
  const Value v = c.in(kSecond)*attrs.beta2 + g * g * (1 - attrs.beta2);
  Value p = w.param;
  if (attrs.decoupled && attrs.weight_decay != 0) p = p * (1.0 - w.rate * attrs.weight_decay);
  c.set(0, ops::cast(p - w.rate / correction1 * m / (ops::sqrt(v) * inv_root + attrs.eps),
                     c.type(0).dtype));
  c.set(1, m);
  c.set(2, v);
}

}  // namespace

// sgd_update(param, velocity?, grad, lr, step?) -> (param, velocity?): torch.optim.SGD.
//   d = grad + weight_decay * param;  velocity = momentum * velocity + (1 - dampening) * d, without
//   dampening at step 1 param -= lr * (velocity, or d + momentum * velocity with nesterov, or d
//   without velocity)
// The velocity starts at zero. `step` counts from 1 and is needed for dampening only.
const OpDef op::sgd_update = {
    .name = "sgd_update",
    .attrs = &kAttrSchema<SgdAttrs>,
    .min_inputs = 1,
    .max_inputs = 5,
    .infer = infer_sgd,
    .decompose = decompose_sgd,
    .diff = Diff::by_decomposition,
    .kernel = sgd_kernel,
    .flops = [](const NodeTypes& n) { return 6.0 * static_cast<double>(n.in[0]->numel()); },
    .inplace = Inplace::pairwise,
};

// adam_update(param, m, v, grad, lr, step) -> (param, m, v): torch.optim.Adam, or AdamW when
// decoupled.
//   g = grad, plus weight_decay * param unless decoupled;  m = beta1 m + (1 - beta1) g;  v = beta2
//   v + (1 - beta2) g^2 param = param (1 - lr weight_decay, if decoupled) - lr (m / (1 -
//   beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
const OpDef op::adam_update = {
    .name = "adam_update",
    .attrs = &kAttrSchema<AdamAttrs>,
    .min_inputs = 6,
    .max_inputs = 6,
    .infer = infer_adam,
    .decompose = decompose_adam,
    .diff = Diff::by_decomposition,
    .kernel = adam_kernel,
    .flops = [](const NodeTypes& n) { return 14.0 * static_cast<double>(n.in[0]->numel()); },
    .inplace = Inplace::pairwise,
};

}  // namespace hone
