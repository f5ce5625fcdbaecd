// SPDX-License-Identifier: Apache-2.0
// The gradient of batch normalisation on channels-last images.
//
// It goes over the images twice, for the sums and for the gradient of x. The gradient that comes in
// may be an expression of element-wise nodes, such as the mask of a relu: the first pass evaluates
// it, a stretch of pixels at a time, into what the second makes the gradient of x. Sums are taken
// as in image_norm.cpp.
#if HONE_HAVE_HIGHWAY

#include <algorithm>
#include <cmath>

#include "backends/cpu/image_ops.hpp"
#include "backends/cpu/pointwise.hpp"
#include "backends/cpu/stretches.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/image_norm_grad.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/vector_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// By channel: the sums of gy and of gy (x - mean).
void GradSums(const float* x, const float* gy, int64_t pixels, int64_t channels, const float* mean,
              float* sum, float* product) {
  ForChannels(channels, [&](int64_t c, size_t n) {
    const V m = Load(mean + c, n);
    Store(SumPixels(pixels, channels, c, [&](int64_t at) { return Load(gy + at, n); }), sum + c, n);
    Store(SumPixels(
              pixels, channels, c,
              [&](int64_t at) { return hn::Mul(Load(gy + at, n), hn::Sub(Load(x + at, n), m)); }),
          product + c, n);
  });
}

// gx = factor (gy - shift - (x - mean) slope)
void InputGrad(const float* x, const float* gy, float* gx, int64_t pixels, int64_t channels,
               const float* mean, const float* factor, const float* shift, const float* slope) {
  for (int64_t p = 0; p < pixels; ++p, x += channels, gy += channels, gx += channels)
    ForChannels(channels, [&](int64_t c, size_t n) {
      const V deviation = hn::Sub(Load(x + c, n), Load(mean + c, n));
      const V g = hn::Sub(hn::Sub(Load(gy + c, n), Load(shift + c, n)),
                          hn::Mul(deviation, Load(slope + c, n)));
      Store(hn::Mul(Load(factor + c, n), g), gx + c, n);
    });
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(GradSums);
HWY_EXPORT(InputGrad);

constexpr size_t kFirstOperand = kBatchNormGradOperand;  // of gy, behind x, scale, mean and var

// Inputs x, scale, mean, var, then gy or the operands of its expression; outputs gx, gscale, gbias.
class BatchNormGradKernel final : public Kernel {
 public:
  BatchNormGradKernel(const Pixels& x, double eps, std::optional<Evaluator> gy)
      : x_(x), parts_(x.count()), eps_(eps), gy_(std::move(gy)) {
    outputs_ = kFirstOperand + (gy_ ? static_cast<size_t>(gy_->operands()) : 1);
  }
  int64_t scratch_bytes(int threads) const {
    const int64_t registers = gy_ ? threads * gy_->scratch_floats() : 0;
    return Scratch::bytes(parts_, x_.channels) + registers * static_cast<int64_t>(sizeof(float));
  }

  Status run(const StepArgs& args) override {
    const Scratch s(args.scratch, parts_, x_.channels);
    args.pool.parallel_for(parts_.count, 1, [&](int64_t begin, int64_t end, int worker) {
      std::optional<Evaluator::Run> run;
      if (gy_) run.emplace(*gy_, args.operands.data() + kFirstOperand, registers(args, worker));
      for (int64_t part = begin; part < end; ++part) sums(args, run, s, part);
    });
    finish(args, s);
    const float *x = args.in<float>(0), *mean = args.in<float>(2);
    float* const gx = args.out<float>(outputs_);
    const float* gy = gy_ ? gx : args.in<float>(kFirstOperand);
    for_rows(args.pool, x_.count(), x_.channels, [&](int64_t first, int64_t count) {
      const int64_t at = first * x_.channels;
      HWY_DYNAMIC_DISPATCH(InputGrad)
      (x + at, gy + at, gx + at, count, x_.channels, mean, s.vector(0), s.vector(1), s.vector(2));
    });
    return {};
  }

 private:
  float* registers(const StepArgs& args, int worker) const {
    std::byte* const behind = args.scratch + Scratch::bytes(parts_, x_.channels);
    return reinterpret_cast<float*>(behind) + worker * gy_->scratch_floats();
  }

  void sums(const StepArgs& args, std::optional<Evaluator::Run>& run, const Scratch& s,
            int64_t part) const {
    const float *x = args.in<float>(0), *mean = args.in<float>(2);
    double *sum = s.wide(0, part), *product = s.wide(1, part);
    float *a = s.narrow(0, part), *b = s.narrow(1, part);
    std::fill_n(sum, x_.channels, 0.0);
    std::fill_n(product, x_.channels, 0.0);
    parts_.for_stretches(part, [&](int64_t first, int64_t count) {
      const int64_t at = first * x_.channels;
      const float* gy = run ? args.out<float>(outputs_) : args.in<float>(kFirstOperand);
      if (run) run->evaluate(at, count * x_.channels, args.out<float>(outputs_) + at);
      HWY_DYNAMIC_DISPATCH(GradSums)(x + at, gy + at, count, x_.channels, mean, a, b);
      for (int64_t c = 0; c < x_.channels; ++c) {
        sum[c] += static_cast<double>(a[c]);
        product[c] += static_cast<double>(b[c]);
      }
    });
  }

  // As the operator's reference kernel has it.
  void finish(const StepArgs& args, const Scratch& s) const {
    const double n = static_cast<double>(x_.count());
    for (int64_t c = 0; c < x_.channels; ++c) {
      double gbias = 0, product = 0;
      for (int64_t part = 0; part < parts_.count; ++part) {
        gbias += s.wide(0, part)[c];
        product += s.wide(1, part)[c];
      }
      const double inv = 1 / std::sqrt(static_cast<double>(args.in<float>(3)[c]) + eps_);
      const double gscale = product * inv;
      args.out<float>(outputs_ + 1)[c] = static_cast<float>(gscale);
      args.out<float>(outputs_ + 2)[c] = static_cast<float>(gbias);
      s.vector(0)[c] = static_cast<float>(static_cast<double>(args.in<float>(1)[c]) * inv);
      s.vector(1)[c] = static_cast<float>(gbias / n);
      s.vector(2)[c] = static_cast<float>(inv * gscale / n);
    }
  }

  Pixels x_;
  Parts parts_;
  double eps_;
  std::optional<Evaluator> gy_;
  size_t outputs_;
};

}  // namespace

Status lower_batch_norm_grad(Region& r, const Group& group) {
  const NodeId id = group.root;
  const Node& n = r.graph().node(id);
  const TensorType& type = r.graph().type(n.inputs[0]);
  Step s;
  s.node = id;
  s.kind = "vector.batch_norm_grad";
  s.flops = 4 * static_cast<double>(type.numel());
  s.reads = {r.image(n.inputs[0], id), r.plain(n.inputs[1], id), r.plain(n.inputs[2], id),
             r.plain(n.inputs[3], id)};
  std::optional<Evaluator> gy;
  if (group.nodes.size() > 1) {
    const Expression e =
        image_expression(r, std::span(group.nodes).first(group.nodes.size() - 1), s);
    const PointwiseOperand result{DType::f32, channels_last_shape(type.shape)};
    const std::span operands = std::span(s.reads).subspan(kFirstOperand);
    for (MayShare m : e.may_share(result, operands))
      if (operands[static_cast<size_t>(m.read)] != s.reads[0])  // x is read again
        s.may_share.push_back({m.write, m.read + static_cast<int32_t>(kFirstOperand)});
    gy = e.evaluator(result.shape);
  } else {
    s.may_share = {{0, static_cast<int32_t>(kFirstOperand)}};
    s.reads.push_back(r.image(n.inputs[kFirstOperand], id));
  }
  s.writes = {r.result_image(n.outputs[0]), r.result_plain(n.outputs[1]),
              r.result_plain(n.outputs[2])};
  auto kernel = std::make_unique<BatchNormGradKernel>(Pixels(type.shape),
                                                      n.attrs.as<NormAttrs>().eps, std::move(gy));
  s.scratch_bytes = kernel->scratch_bytes(r.to().threads());
  s.kernel = std::move(kernel);
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
