// SPDX-License-Identifier: Apache-2.0
// The trigonometric and hyperbolic functions that elementwise.cpp does not have, and their
// inverses.
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/elementwise.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

#define HONE_FORMULA(Name, fn)                           \
  struct Name {                                          \
    auto operator()(auto x) const { return std::fn(x); } \
  };
HONE_FORMULA(Tan, tan)
HONE_FORMULA(Asin, asin)
HONE_FORMULA(Acos, acos)
HONE_FORMULA(Atan, atan)
HONE_FORMULA(Sinh, sinh)
HONE_FORMULA(Cosh, cosh)
HONE_FORMULA(Asinh, asinh)
HONE_FORMULA(Acosh, acosh)
HONE_FORMULA(Atanh, atanh)
#undef HONE_FORMULA

constexpr OpDef function(std::string_view name, Status (*kernel)(const KernelArgs&),
                         void (*grad)(GradCtx&)) {
  return {.name = name,
          .infer = same_as_first<Accepts::floats>,
          .diff = Diff::rule,
          .grad = grad,
          .kernel = kernel,
          .inplace = Inplace::any_input};
}

Value emit(const OpDef& op, Value x) { return x.valid() ? x.builder().emit(op, {x}) : x; }

}  // namespace

constinit const OpDef op::tan = function("tan", map_floats<Tan>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * (1 + ops::square(c.out(0))));
});

constinit const OpDef op::asin = function("asin", map_floats<Asin>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * ops::rsqrt(1 - ops::square(c.in(0))));
});

constinit const OpDef op::acos = function("acos", map_floats<Acos>, [](GradCtx& c) {
  c.set(0, -c.out_grad(0) * ops::rsqrt(1 - ops::square(c.in(0))));
});

constinit const OpDef op::atan = function("atan", map_floats<Atan>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) / (1 + ops::square(c.in(0))));
});

constinit const OpDef op::sinh = function("sinh", map_floats<Sinh>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * emit(op::cosh, c.in(0)));
});

constinit const OpDef op::cosh = function("cosh", map_floats<Cosh>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * emit(op::sinh, c.in(0)));
});

constinit const OpDef op::asinh = function("asinh", map_floats<Asinh>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * ops::rsqrt(1 + ops::square(c.in(0))));
});

// (x - 1)(x + 1) rather than x^2 - 1, which cancels near 1.
constinit const OpDef op::acosh = function("acosh", map_floats<Acosh>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * ops::rsqrt((c.in(0) - 1.0) * (c.in(0) + 1.0)));
});

constinit const OpDef op::atanh = function("atanh", map_floats<Atanh>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) / ((1 - c.in(0)) * (1 + c.in(0))));
});

}  // namespace hone
