// SPDX-License-Identifier: Apache-2.0
// Products as exporters write them: in any order, with constants anywhere, divided or multiplied.
#pragma once

#include "core/passes/simplify_rules.hpp"

namespace hone {

/// coefficient * factors / divisors / sqrt(roots).
struct Product {
  double coefficient = 1;
  double tolerance = 1e-6;  ///< Relative: what the constants' dtype leaves open.
  int rank = 0;             ///< Of the constants: the product has at least as many axes.
  std::vector<Value> factors, divisors, roots;

  bool is_one_of(Value x) const { return factors.size() == 1 && factors[0].id() == x.id(); }
  /// The coefficient, up to the rounding of constants.
  bool scales_by(double v) const;
  bool has_rest() const { return !divisors.empty() || !roots.empty(); }
  /// Takes one factor out; false when it is none.
  bool take(Value x);
};

/// The node as a product; `atom` is not taken apart. Nothing when it is too long.
std::optional<Product> product_of(Rewriter& r, const Pending& p, Value atom = {});
std::optional<Product> product_of(Rewriter& r, Value v, Value atom = {});

/// other + number.
struct Shifted {
  Value other;
  double number = 0;
  int rank = 0;  ///< Of the constant.
};
std::optional<Shifted> shifted(Rewriter& r, Value v);

/// Whether constants of that rank leave the shape of `x` alone.
bool fits(Rewriter& r, int rank, Value x);

/// Roughly equal, as f32 constants of one number are.
bool near(double a, double b, double tolerance = 1e-6);

/// Rules for sums, products and quotients.
Value recognise_norm(Rewriter& r, const Pending& p);
Value recognise_shifted_norm(Rewriter& r, const Pending& p);
Value scale_norm(Rewriter& r, const Pending& p);
Value shift_norm(Rewriter& r, const Pending& p);

/// What is left of a transpose once its last two axes are swapped by a product itself: nothing, or
/// one that leaves the last axis in its place. No value: the product had better not swap them.
Value without_swap(Rewriter& r, Value v);
Value recognise_attention(Rewriter& r, const Pending& p);
/// ONNX's Attention of which only the result is read, as scaled_dot_product_attention.
Value fuse_attention(Rewriter& r, const Pending& p);

}  // namespace hone
