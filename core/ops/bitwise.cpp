// SPDX-License-Identifier: Apache-2.0
// Operators on the bits of integers. They are piecewise constant: no gradient flows through them.
#include "core/ops/checks.hpp"
#include "core/ops/elementwise.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

Status need_integers(const InferCtx& c) {
  if (!is_float(c.dtype(0)) && c.dtype(0) != DType::bool_) return {};
  return c.error("input 0 is {}, expected integers", c.in(0));
}

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  T operator()(T x) const {
    return ~x;
  }
};
// A shift by as many bits as there are, or more, leaves nothing; by a negative number: nothing too.
// Bits that leave a narrow type on the left are cut off when the result is narrowed.
struct ShiftLeft {
  template <class T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    const bool all = b < 0 || b >= static_cast<T>(8 * sizeof(T));
    return all ? T(0) : static_cast<T>(static_cast<U>(a) << b);
  }
};
// The sign stays where it is.
struct ShiftRight {
  template <class T>
  T operator()(T a, T b) const {
    const bool all = b < 0 || b >= static_cast<T>(8 * sizeof(T));
    return all ? T(a < 0 ? -1 : 0) : a >> b;
  }
};

template <class F>
Status zip_integers(const KernelArgs& args) {
  static constexpr BinaryRows kRows = {.i32 = detail::binary_row<F, int32_t>,
                                       .i64 = detail::binary_row<F, int64_t>};
  return run_binary(args, kRows);
}

constexpr OpDef pairwise(std::string_view name, Status (*kernel)(const KernelArgs&)) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](InferCtx& c) -> Status {
            HONE_TRY(need_integers(c));
            return infer_broadcast(c, Accepts::numbers);
          },
          .diff = Diff::zero,
          .kernel = kernel,
          .broadcasts = true,
          .inplace = Inplace::any_input};
}

}  // namespace

constinit const OpDef op::bitwise_and = pairwise("bitwise_and", zip_integers<And>);
constinit const OpDef op::bitwise_or = pairwise("bitwise_or", zip_integers<Or>);
constinit const OpDef op::bitwise_xor = pairwise("bitwise_xor", zip_integers<Xor>);
constinit const OpDef op::shift_left = pairwise("shift_left", zip_integers<ShiftLeft>);
constinit const OpDef op::shift_right = pairwise("shift_right", zip_integers<ShiftRight>);

constinit const OpDef op::bitwise_not = {
    .name = "bitwise_not",
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need_integers(c));
      c.out(c.in(0));
      return {};
    },
    .diff = Diff::zero,
    .kernel =
        [](const KernelArgs& args) {
          static constexpr UnaryRows kRows = {.i32 = detail::unary_row<Not, int32_t>,
                                              .i64 = detail::unary_row<Not, int64_t>};
          return run_unary(args, kRows);
        },
    .inplace = Inplace::any_input,
};

}  // namespace hone
