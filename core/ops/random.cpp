// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers. A number is a function of (seed, counter), which the rng
// input holds, of the node's stream, and of the element's index: not of threads, of what ran
// before, or of how often. A mask that is computed again is the same mask.
#include <cmath>
#include <numbers>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "core/tensor/philox.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

Status need_rng(const InferCtx& c, int input) {
  if (c.in(input) == TensorType{DType::i64, {2}}) return {};
  return c.error("input {}, the random state, is {}, expected i64[2]: seed and counter", input,
                 c.in(input));
}

// One node's random numbers in one step. The upper half of Philox's counter holds the stream above
// 40 bits of step, the lower half the element.
class Draws {
 public:
  Draws(const int64_t* rng, int64_t stream)
      : seed_(static_cast<uint64_t>(rng[0])),
        high_(static_cast<uint64_t>(stream) << 40 |
              (static_cast<uint64_t>(rng[1]) & ((uint64_t{1} << 40) - 1))) {}
  Philox::Block block(int64_t i) const {
    return Philox::block(seed_, high_, static_cast<uint64_t>(i));
  }

 private:
  uint64_t seed_, high_;
};

// f(i, word) for elements [begin, end): one word each, four from a block.
template <class F>
void for_words(const Draws& draws, int64_t begin, int64_t end, F f) {
  while (begin < end) {
    const Philox::Block words = draws.block(begin / 4);
    for (int64_t lane = begin % 4; lane < 4 && begin < end; ++lane)
      f(begin++, words[static_cast<size_t>(lane)]);
  }
}

Status check_dropout(InferCtx& c) {
  const double p = c.attrs<DropoutAttrs>().p;
  HONE_TRY(need(c, 0, Accepts::floats));
  if (!(p >= 0 && p <= 1)) return c.error("the probability {} is not in [0, 1]", p);
  if (c.has(1)) HONE_TRY(need_rng(c, 1));
  c.out(c.in(0));
  return {};
}

Status dropout_kernel(const KernelArgs& args) {
  const DropoutAttrs& attrs = args.attrs.as<DropoutAttrs>();
  const Draws draws(args.input<int64_t>(1), attrs.stream);
  const float p = static_cast<float>(attrs.p);
  dispatch_float(args.out[0].type.dtype, [&]<class T>() {
    using C = accumulator_t<T>;
    const C scale = attrs.p < 1 ? static_cast<C>(1 / (1 - attrs.p)) : C(0);
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    for_ranges(args.pool, args.out[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
      for_words(draws, begin, end, [&](int64_t i, uint32_t word) {
        y[i] = Philox::unit(word) < p ? T(C(0)) : static_cast<T>(static_cast<C>(x[i]) * scale);
      });
    });
  });
  return {};
}

}  // namespace

// dropout(x, rng?): what models say. Without rng it is the identity.
constinit const OpDef op::dropout = {
    .name = "dropout",
    .attrs = &kAttrSchema<DropoutAttrs>,
    .min_inputs = 1,
    .max_inputs = 2,
    .infer = check_dropout,
    .decompose =
        [](DecomposeCtx& c) {
          const DropoutAttrs& attrs = c.attrs<DropoutAttrs>();
          const bool active = c.has(1) && attrs.p > 0;
          c.set(0, active ? c.b.emit(op::random_dropout, {c.in(0), c.in(1)}, attrs)
                          : ops::identity(c.in(0)));
        },
    .diff = Diff::by_decomposition,
    .training =
        [](TrainingCtx& c) {
          DropoutAttrs attrs = c.attrs<DropoutAttrs>();
          if (attrs.p == 0) return c.set(0, ops::identity(c.in(0)));
          if (!c.has(1)) attrs.stream = c.next_stream();
          const Value rng = c.has(1) ? c.in(1) : c.rng();
          c.set(0, c.b.emit(op::random_dropout, {c.in(0), rng}, attrs));
        },
};

namespace {

double ratio_of(const TensorData* ratio) { return ratio ? ratio->at(0) : 0.5; }

Status infer_dropout_dyn(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  for (int i = 1; i < c.size(); ++i) {
    if (!c.has(i)) continue;
    if (c.shape(i).numel() != 1) return c.error("input {} is {}, not one number", i, c.in(i));
    if (!c.constant(i))
      return unsupported("{}: input {} needs to be known before running", c.who(), i);
  }
  const double p = ratio_of(c.constant(1));
  if (!(p >= 0 && p <= 1)) return c.error("the probability {} is not in [0, 1]", p);
  if (p > 0 && c.has(2) && c.constant(2)->at(0) != 0)
    return unsupported("{}: a mask of training, which is drawn at random", c.who());
  c.out(c.in(0));
  c.out(DType::bool_, c.shape(0));
  return {};
}

}  // namespace

// dropout_dyn(x, ratio?, training?) -> (y, mask): with a probability that is an input. The mask is
// that of inference, where all is kept.
constinit const OpDef op::dropout_dyn = {
    .name = "dropout_dyn",
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = infer_dropout_dyn,
    .decompose =
        [](DecomposeCtx& c) {
          c.set(0, ops::identity(c.in(0)));
          c.set(1, ops::fill(c.b, {DType::bool_, c.shape(0)}, 1));
        },
    .diff = Diff::by_decomposition,
};

// random_dropout(x, rng): 0 with probability p, otherwise x / (1 - p). Its gradient draws the same
// mask again, so none is kept.
constinit const OpDef op::random_dropout = {
    .name = "random_dropout",
    .attrs = &kAttrSchema<DropoutAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = check_dropout,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::random_dropout, {c.out_grad(0), c.in(1)}, c.raw_attrs()));
        },
    .kernel = dropout_kernel,
    .inplace = Inplace::any_input,
};

namespace {

Status infer_random(InferCtx& c) {
  const RandomAttrs& attrs = c.attrs<RandomAttrs>();
  HONE_TRY(need_rng(c, 0));
  if (!is_float(attrs.dtype))
    return c.error("random numbers are floating point, not {}", attrs.dtype);
  auto shape = Shape::make(attrs.shape);
  if (!shape.ok()) return shape.status().with_context(c.who());
  c.out(attrs.dtype, *shape);
  return {};
}

// A multiple of 2^-53 in [0, 1) from two words.
double wide_unit(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// f64 takes two words an element, the narrower types one.
Status uniform_kernel(const KernelArgs& args) {
  const RandomAttrs& attrs = args.attrs.as<RandomAttrs>();
  const Draws draws(args.input<int64_t>(0), attrs.stream);
  const auto scaled = [&](double u) { return attrs.low + (attrs.high - attrs.low) * u; };
  dispatch_float(args.out[0].type.dtype, [&]<class T>() {
    T* y = args.output<T>(0);
    for_ranges(args.pool, args.out[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<T, double>) {
        for (int64_t i = begin; i < end; ++i) {
          const Philox::Block w = draws.block(i / 2);
          y[i] = scaled(i % 2 ? wide_unit(w[2], w[3]) : wide_unit(w[0], w[1]));
        }
      } else {
        for_words(draws, begin, end, [&](int64_t i, uint32_t word) {
          y[i] = static_cast<T>(static_cast<float>(scaled(Philox::unit(word))));
        });
      }
    });
  });
  return {};
}

// Box and Muller's transform: two uniform numbers give two normal ones.
Status normal_kernel(const KernelArgs& args) {
  const RandomAttrs& attrs = args.attrs.as<RandomAttrs>();
  const Draws draws(args.input<int64_t>(0), attrs.stream);
  dispatch_float(args.out[0].type.dtype, [&]<class T>() {
    T* y = args.output<T>(0);
    for_ranges(args.pool, args.out[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Philox::Block w = draws.block(i / 2);
        const double radius = std::sqrt(-2 * std::log1p(-wide_unit(w[0], w[1])));
        const double angle = 2 * std::numbers::pi * wide_unit(w[2], w[3]);
        const double normal = radius * (i % 2 ? std::sin(angle) : std::cos(angle));
        const double v = attrs.low + attrs.high * normal;
        if constexpr (std::is_same_v<T, double>)
          y[i] = v;
        else
          y[i] = static_cast<T>(static_cast<float>(v));
      }
    });
  });
  return {};
}

constexpr OpDef random_op(std::string_view name, Status (*kernel)(const KernelArgs&)) {
  return {.name = name,
          .attrs = &kAttrSchema<RandomAttrs>,
          .infer = infer_random,
          .diff = Diff::zero,
          .kernel = kernel};
}

}  // namespace

// random_uniform(rng): in [low, high), and `high` itself where rounding to the type gives it.
constinit const OpDef op::random_uniform = random_op("random_uniform", uniform_kernel);
// random_normal(rng): mean `low`, deviation `high`.
constinit const OpDef op::random_normal = random_op("random_normal", normal_kernel);

}  // namespace hone
