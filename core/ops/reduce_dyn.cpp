// SPDX-License-Identifier: Apache-2.0
// Reductions and running sums whose axes are an input. Once the input is known they are the
// operators that have the axes as an attribute.
#include "core/ops/checks.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// What the operator becomes when the axes are known. No axes at all: nothing is reduced.
struct KnownAxes {
  ReduceAttrs attrs;
  bool noop = false;
};
KnownAxes known_axes(const ReduceDynAttrs& dyn, const TensorData* axes) {
  KnownAxes k{{axes ? to_ints(*axes) : std::vector<int64_t>(), dyn.keepdims}};
  k.noop = k.attrs.axes.empty() && dyn.noop_with_empty_axes;
  return k;
}

Status infer_as(InferCtx& c, const OpDef& op, const Attrs& attrs) {
  auto types = infer(op, c.who(), {&c.in(0)}, {nullptr}, attrs);
  if (!types.ok()) return types.status();
  for (const TensorType& t : *types) c.out(t);
  return {};
}

template <const OpDef* reduction>
Status infer_reduce_dyn(InferCtx& c) {
  if (c.has(1)) HONE_TRY(need_constant_ints(c, 1).status());
  const KnownAxes k = known_axes(c.attrs<ReduceDynAttrs>(), c.constant(1));
  if (!k.noop) return infer_as(c, *reduction, k.attrs);
  HONE_TRY(need(c, 0, Accepts::numbers));
  c.out(c.in(0));
  return {};
}

template <const OpDef* reduction>
constexpr OpDef reduce_dyn(std::string_view name) {
  return {.name = name,
          .attrs = &kAttrSchema<ReduceDynAttrs>,
          .min_inputs = 1,
          .max_inputs = 2,
          .infer = infer_reduce_dyn<reduction>,
          .decompose =
              [](DecomposeCtx& c) {
                const KnownAxes k = known_axes(c.attrs<ReduceDynAttrs>(), c.constant(1));
                c.set(0, k.noop ? c.in(0) : c.b.emit(*reduction, {c.in(0)}, k.attrs));
              },
          .diff = Diff::by_decomposition};
}

Result<CumsumAttrs> cumsum_attrs(const InferCtx& c) {
  HONE_TRY(need(c, 1, Accepts::indices));
  const TensorData* axis = c.constant(1);
  if (!axis) return unsupported("{}: input 1, the axis, needs to be known before running", c.who());
  if (axis->numel() != 1) return c.error("input 1, the axis, is {}, not one number", c.in(1));
  const CumsumDynAttrs& a = c.attrs<CumsumDynAttrs>();
  return CumsumAttrs{axis->int_at(0), a.exclusive, a.reverse};
}

}  // namespace

// sum_dyn(x, axes?) and so on
constinit const OpDef op::sum_dyn = reduce_dyn<&op::sum>("sum_dyn");
constinit const OpDef op::mean_dyn = reduce_dyn<&op::mean>("mean_dyn");
constinit const OpDef op::max_dyn = reduce_dyn<&op::max>("max_dyn");
constinit const OpDef op::min_dyn = reduce_dyn<&op::min>("min_dyn");
constinit const OpDef op::prod_dyn = reduce_dyn<&op::prod>("prod_dyn");

// cumsum_dyn(x, axis)
constinit const OpDef op::cumsum_dyn = {
    .name = "cumsum_dyn",
    .attrs = &kAttrSchema<CumsumDynAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const CumsumAttrs attrs, cumsum_attrs(c));
      return infer_as(c, op::cumsum, attrs);
    },
    .decompose =
        [](DecomposeCtx& c) {
          const CumsumDynAttrs& a = c.attrs<CumsumDynAttrs>();
          c.set(0, c.b.emit(op::cumsum, {c.in(0)},
                            CumsumAttrs{c.constant(1)->int_at(0), a.exclusive, a.reverse}));
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
