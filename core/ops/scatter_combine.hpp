// SPDX-License-Identifier: Apache-2.0
// What scatter_elements and scatter_nd share: combining elements with updates, and gradients.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"

namespace hone {

template <class T>
T combine(ScatterMode mode, T old_value, T update) {
  if constexpr (std::is_same_v<T, bool>) {
    return update;  // infer lets bool through for assign only
  } else {
    // Integers wrap.
    using Wide = std::conditional_t<is_float_type<T>, T, uint64_t>;
    const Wide a = static_cast<Wide>(old_value), b = static_cast<Wide>(update);
    switch (mode) {
      case ScatterMode::assign:
        break;
      case ScatterMode::add:
        return static_cast<T>(a + b);
      case ScatterMode::mul:
        return static_cast<T>(a * b);
      case ScatterMode::max:
        return old_value > update || old_value != old_value ? old_value : update;
      case ScatterMode::min:
        return old_value < update || old_value != old_value ? old_value : update;
    }
    return update;
  }
}

/// Sums and products of half floats are taken in float: updates that meet in one place would stop
/// to count where they are smaller than a unit of the sum.
inline bool scatters_wide(DType t, ScatterMode mode) {
  return (t == DType::f16 || t == DType::bf16) &&
         (mode == ScatterMode::add || mode == ScatterMode::mul);
}
inline int64_t scatter_scratch(const NodeTypes& t, ScatterMode mode) {
  return scatters_wide(t.out[0]->dtype, mode)
             ? t.out[0]->numel() * static_cast<int64_t>(sizeof(float))
             : 0;
}

/// Copies the data to the output and combines it there with updates, one after the other:
/// each(f) calls f(offset in the output, offset in the updates). One thread: those that meet must
/// meet in order.
template <class Each>
void scatter_updates(const KernelArgs& args, ScatterMode mode, Each each) {
  const TensorView& y = args.out[0];
  dispatch(y.type.dtype, [&]<class T>() {
    const T *data = args.input<T>(0), *updates = args.input<T>(2);
    T* out = args.output<T>(0);
    if (!scatters_wide(y.type.dtype, mode)) {
      if (y.data != args.in[0].data)
        std::memcpy(y.data, args.in[0].data, static_cast<size_t>(y.type.bytes()));
      each([&](int64_t to, int64_t from) { out[to] = combine(mode, out[to], updates[from]); });
    } else if constexpr (is_float_type<T>) {
      using S = accumulator_t<T>;
      S* sums = reinterpret_cast<S*>(args.scratch);
      std::transform(data, data + y.numel(), sums, [](T v) { return static_cast<S>(v); });
      each([&](int64_t to, int64_t from) {
        sums[to] = combine(mode, sums[to], static_cast<S>(updates[from]));
      });
      std::transform(sums, sums + y.numel(), out, [](S v) { return static_cast<T>(v); });
    }
  });
}

// The factors that an update was multiplied with, zeros among them: the product of the others is
// found without dividing by it.
template <class Access>
void scatter_mul_grad(GradCtx& c, const Access& at) {
  const DType t = c.in(0).dtype();
  const Value one = c.b.scalar(1, t), zero = c.b.scalar(0, t), indices = c.in(1);
  if (c.needs(0)) {
    const Value factor = at.scatter(ops::ones_like(c.in(0)), indices, c.in(2), ScatterMode::mul);
    c.set(0, c.out_grad(0) * factor);
  }
  if (!c.needs(2)) return;
  const Value is_zero = ops::equal(c.in(2), zero);
  const Value others = ops::where(is_zero, one, c.in(2));
  const Value product = at.scatter(c.in(0), indices, others, ScatterMode::mul);
  const Value zeros =
      at.scatter(ops::zeros_like(c.in(0)), indices, ops::cast(is_zero, t), ScatterMode::add);
  const Value g = at.pick(c.out_grad(0) * product, indices);
  const Value seen = at.pick(zeros, indices);
  const Value without_me = seen - ops::cast(is_zero, t);
  c.set(2, ops::where(ops::equal(without_me, zero), g / others, zero));
}

// Equal winners share, as in a reduction.
template <class Access>
void scatter_extremum_grad(GradCtx& c, const Access& at) {
  const DType t = c.in(0).dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Value indices = c.in(1);
  const Value data_wins = ops::cast(ops::equal(c.in(0), c.out(0)), t);
  const Value update_wins = ops::cast(ops::equal(c.in(2), at.pick(c.out(0), indices)), t);
  const Value winners = at.scatter(data_wins, indices, update_wins, ScatterMode::add);
  const Value share = ops::cast(c.out_grad(0), t) / winners;
  if (c.needs(0)) c.set(0, share * data_wins);
  if (c.needs(2)) c.set(2, at.pick(share, indices) * update_wins);
}

/// The gradient of a scatter. `at` knows where: at.scatter(data, indices, updates, mode) and
/// at.pick(x, indices), which reads where scatter writes.
template <class Access>
void scatter_grad_with(GradCtx& c, ScatterMode mode, const Access& at) {
  switch (mode) {
    case ScatterMode::mul:
      return scatter_mul_grad(c, at);
    case ScatterMode::max:
    case ScatterMode::min:
      return scatter_extremum_grad(c, at);
    case ScatterMode::add:
      c.set(0, c.out_grad(0));
      break;
    case ScatterMode::assign:
      if (c.needs(0))
        c.set(0, at.scatter(c.out_grad(0), c.in(1), ops::zeros_like(c.in(2)), ScatterMode::assign));
      break;
  }
  if (c.needs(2)) c.set(2, at.pick(c.out_grad(0), c.in(1)));
}

}  // namespace hone
