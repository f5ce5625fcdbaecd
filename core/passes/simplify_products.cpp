// SPDX-License-Identifier: Apache-2.0
#include "core/passes/simplify_products.hpp"

#include <algorithm>
#include <cmath>

namespace hone {

namespace {

constexpr size_t kMaxParts = 8;
constexpr int kMaxDepth = 8;

enum class Side : uint8_t { above, below };
Side other(Side s) { return s == Side::above ? Side::below : Side::above; }

class Flattener {
 public:
  Flattener(Rewriter& r, Value atom) : r_(r), atom_(atom) {}

  // The operands of one node. False: the node is no product.
  bool node(const OpDef& op, Value a, Value b, Side side, int depth) {
    if (&op == &op::mul)
      return same_twice(a, b, side) || (part(a, side, depth) && part(b, side, depth));
    if (&op == &op::div) return part(a, side, depth) && part(b, other(side), depth);
    if (&op == &op::pow) return power(a, b, side);
    if (&op == &op::reciprocal) return part(a, other(side), depth);
    if (&op == &op::sqrt && side == Side::below) return add(p_.roots, a);
    if (&op == &op::rsqrt && side == Side::above) return add(p_.roots, a);
    return false;
  }

  bool part(Value v, Side side, int depth) {
    if (!v.valid() || depth > kMaxDepth) return false;
    if (const auto n = r_.number(v)) return constant(v, *n, side);
    const Node* n = v.id() == atom_.id() ? nullptr : r_.producer(v);
    const bool takes_apart =
        n && (n->op == &op::mul || n->op == &op::div || n->op == &op::reciprocal ||
              n->op == &op::pow || n->op == &op::sqrt || n->op == &op::rsqrt);
    if (takes_apart) {
      const Product before = p_;
      if (node(*n->op, r_.input(*n, 0), r_.input(*n, 1), side, depth + 1)) return true;
      p_ = before;
    }
    return add(side == Side::above ? p_.factors : p_.divisors, v);
  }

  Product take() { return std::move(p_); }

 private:
  bool add(std::vector<Value>& list, Value v) {
    if (!v.valid() || p_.factors.size() + p_.divisors.size() + p_.roots.size() >= kMaxParts)
      return false;
    list.push_back(v);
    return true;
  }

  bool constant(Value v, double n, Side side) {
    const TensorData& t = *r_.constant(v);
    if (!is_float(t.dtype()) || n == 0 || !std::isfinite(n)) return false;
    p_.coefficient *= side == Side::above ? n : 1 / n;
    p_.rank = std::max(p_.rank, t.shape().rank());
    if (t.dtype() == DType::f16) p_.tolerance = std::max(p_.tolerance, 1e-3);
    if (t.dtype() == DType::bf16) p_.tolerance = std::max(p_.tolerance, 8e-3);
    return true;
  }

  // What is squared is not taken apart.
  bool same_twice(Value a, Value b, Side side) {
    if (!a.valid() || !b.valid() || a.id() != b.id() || side == Side::below) return false;
    return add(p_.factors, a) && add(p_.factors, a);
  }

  bool power(Value a, Value b, Side side) {
    const auto n = r_.number(b);
    if (!n) return false;
    p_.rank = std::max(p_.rank, r_.constant(b)->shape().rank());
    if ((*n == 0.5 && side == Side::below) || (*n == -0.5 && side == Side::above))
      return add(p_.roots, a);
    if (side == Side::below || (*n != 2 && *n != 3)) return false;
    bool ok = true;
    for (int i = 0; i < static_cast<int>(*n); ++i) ok = ok && add(p_.factors, a);
    return ok;
  }

  Rewriter& r_;
  Value atom_;
  Product p_;
};

}  // namespace

bool near(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * std::fabs(b);
}

bool Product::scales_by(double v) const { return near(coefficient, v, tolerance); }

bool Product::take(Value x) {
  const auto at = std::find_if(factors.begin(), factors.end(),
                               [&](const Value& v) { return v.id() == x.id(); });
  if (at == factors.end()) return false;
  factors.erase(at);
  return true;
}

std::optional<Product> product_of(Rewriter& r, const Pending& p, Value atom) {
  Flattener f(r, atom);
  if (!f.node(p.op, p.input(0), p.input(1), Side::above, 0)) return std::nullopt;
  return f.take();
}

std::optional<Product> product_of(Rewriter& r, Value v, Value atom) {
  Flattener f(r, atom);
  if (!f.part(v, Side::above, 0)) return std::nullopt;
  return f.take();
}

std::optional<Shifted> shifted(Rewriter& r, Value v) {
  const Node* n = r.producer(v);
  if (!n || (n->op != &op::add && n->op != &op::sub)) return std::nullopt;
  const Value a = r.input(*n, 0), b = r.input(*n, 1);
  const auto first = n->op == &op::add ? r.number(a) : std::nullopt, second = r.number(b);
  if (second) {
    const double sign = n->op == &op::add ? 1 : -1;
    return Shifted{a, sign * *second, r.constant(b)->shape().rank()};
  }
  if (first) return Shifted{b, *first, r.constant(a)->shape().rank()};
  return std::nullopt;
}

bool fits(Rewriter& r, int rank, Value x) { return rank == 0 || rank <= r.facts(x).rank(); }

}  // namespace hone
