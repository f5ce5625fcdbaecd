// SPDX-License-Identifier: Apache-2.0
// Rules for matrix products.
#include <algorithm>

#include "core/passes/simplify_products.hpp"

namespace hone {

Value without_swap(Rewriter& r, Value v) {
  const Node* t = r.producer(v, op::transpose);
  if (!t) return {};
  const Value x = r.input(*t, 0);
  std::vector<int64_t> perm = t->attrs.as<PermAttrs>().perm;
  if (perm.empty() && r.facts(x).rank() == 2) perm = {1, 0};
  const size_t rank = perm.size();
  if (rank < 2 || perm[rank - 2] != static_cast<int64_t>(rank) - 1) return {};
  std::swap(perm[rank - 1], perm[rank - 2]);
  return std::is_sorted(perm.begin(), perm.end())
             ? x
             : r.emit(op::transpose, {x}, PermAttrs{std::move(perm)});
}

namespace {

Value transposed_operands(Rewriter& r, const Pending& p) {
  MatmulAttrs attrs = p.as<MatmulAttrs>();
  Value a = p.input(0), b = p.input(1);
  if (const Value v = without_swap(r, a); v.valid()) a = v, attrs.trans_a = !attrs.trans_a;
  if (const Value v = without_swap(r, b); v.valid()) b = v, attrs.trans_b = !attrs.trans_b;
  if (a.id() == p.input(0).id() && b.id() == p.input(1).id()) return {};
  return r.emit(op::matmul, {a, b}, attrs);
}

constexpr SimplifyRule kRules[] = {
    {&op::matmul, "transposes into products", transposed_operands},
};

}  // namespace

std::span<const SimplifyRule> linear_rules() { return kRules; }

}  // namespace hone
