// SPDX-License-Identifier: Apache-2.0
// Operators on shapes whose settings are inputs, and those that look at nothing but a shape.
#include <algorithm>

#include "core/ops/checks.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

Status infer_as(InferCtx& c, const OpDef& op, const Attrs& attrs) {
  auto types = infer(op, c.who(), {&c.in(0)}, {nullptr}, attrs);
  if (!types.ok()) return types.status();
  for (const TensorType& t : *types) c.out(t);
  return {};
}

// ---- squeeze_dyn(x, axes), unsqueeze_dyn(x, axes)

template <const OpDef* view>
constexpr OpDef axes_dyn(std::string_view name) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](InferCtx& c) -> Status {
            HONE_ASSIGN(const std::vector<int64_t> axes, need_constant_ints(c, 1));
            return infer_as(c, *view, AxesAttrs{axes});
          },
          .decompose =
              [](DecomposeCtx& c) {
                c.set(0, c.b.emit(*view, {c.in(0)}, AxesAttrs{to_ints(*c.constant(1))}));
              },
          .diff = Diff::by_decomposition};
}

// The only number of an input that decides how the operator works.
Result<int64_t> need_constant_number(const InferCtx& c, int input) {
  HONE_TRY(need(c, input, Accepts::indices));
  const TensorData* data = c.constant(input);
  if (!data) return unsupported("{}: input {} needs to be known before running", c.who(), input);
  if (data->numel() != 1) return c.error("input {} is {}, not one number", input, c.in(input));
  return data->int_at(0);
}

}  // namespace

constinit const OpDef op::squeeze_dyn = axes_dyn<&op::squeeze>("squeeze_dyn");
constinit const OpDef op::unsqueeze_dyn = axes_dyn<&op::unsqueeze>("unsqueeze_dyn");

// split_dyn(x, sizes)
constinit const OpDef op::split_dyn = {
    .name = "split_dyn",
    .attrs = &kAttrSchema<AxisAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const std::vector<int64_t> sizes, need_constant_ints(c, 1));
      if (sizes.empty()) return c.error("input 1 has no sizes");
      return infer_as(c, op::split, SplitAttrs{c.attrs<AxisAttrs>().axis, sizes, 0});
    },
    .decompose =
        [](DecomposeCtx& c) {
          const Value in[] = {c.in(0)};
          const SplitAttrs attrs{c.attrs<AxisAttrs>().axis, to_ints(*c.constant(1)), 0};
          const std::vector<Value> parts = c.b.emit_all(op::split, in, attrs);
          for (size_t i = 0; i < parts.size(); ++i) c.set(static_cast<int>(i), parts[i]);
        },
    .diff = Diff::by_decomposition,
};

// trilu_dyn(x, k)
constinit const OpDef op::trilu_dyn = {
    .name = "trilu_dyn",
    .attrs = &kAttrSchema<TriluDynAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const int64_t k, need_constant_number(c, 1));
      return infer_as(c, op::trilu, TriluAttrs{k, c.attrs<TriluDynAttrs>().upper});
    },
    .decompose =
        [](DecomposeCtx& c) {
          const TriluAttrs attrs{c.constant(1)->int_at(0), c.attrs<TriluDynAttrs>().upper};
          c.set(0, c.b.emit(op::trilu, {c.in(0)}, attrs));
        },
    .diff = Diff::by_decomposition,
};

// eye_like(x): a matrix of x's shape with ones on diagonal k
constinit const OpDef op::eye_like = {
    .name = "eye_like",
    .attrs = &kAttrSchema<EyeLikeAttrs>,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need_rank(c, 0, 2));
      c.out(c.attrs<EyeLikeAttrs>().dtype, c.shape(0));
      return {};
    },
    .decompose =
        [](DecomposeCtx& c) {
          const EyeLikeAttrs& a = c.attrs<EyeLikeAttrs>();
          const Value ones = ops::fill(c.b, {a.dtype, c.shape(0)}, 1);
          const Value upper = c.b.emit(op::trilu, {ones}, TriluAttrs{a.k, true});
          c.set(0, c.b.emit(op::trilu, {upper}, TriluAttrs{a.k, false}));
        },
    .diff = Diff::zero,
};

// ---- center_crop_pad_dyn(x, shape): the middle of x, or zeros around it, on the given axes

namespace {

struct CropPad {
  std::vector<int> axes;
  std::vector<int64_t> extents;
};

Result<CropPad> crop_pad(const InferCtx& c) {
  CropPad p;
  HONE_ASSIGN(p.extents, need_constant_ints(c, 1));
  const int rank = c.shape(0).rank();
  for (const int64_t a : c.attrs<AxesAttrs>().axes) {
    HONE_ASSIGN(const int axis, need_axis(c, 0, a));
    p.axes.push_back(axis);
  }
  if (c.attrs<AxesAttrs>().axes.empty())
    for (int i = 0; i < rank; ++i) p.axes.push_back(i);
  if (p.axes.size() != p.extents.size())
    return c.error("input 1 has {} extents for {} axes", p.extents.size(), p.axes.size());
  for (const int64_t e : p.extents)
    if (e < 0) return c.error("the extent {} is negative", e);
  return p;
}

// Half of what is cut off or added, rounded down, goes to the front.
PadAttrs as_padding(const CropPad& p, const Shape& in) {
  PadAttrs pad;
  pad.before.assign(static_cast<size_t>(in.rank()), 0);
  pad.after = pad.before;
  for (size_t i = 0; i < p.axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(p.axes[i]);
    const int64_t more = p.extents[i] - in[p.axes[i]];
    pad.before[axis] = more >= 0 ? more / 2 : -(-more / 2);
    pad.after[axis] = more - pad.before[axis];
  }
  return pad;
}

}  // namespace

constinit const OpDef op::center_crop_pad_dyn = {
    .name = "center_crop_pad_dyn",
    .attrs = &kAttrSchema<AxesAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const CropPad p, crop_pad(c));
      Shape out = c.shape(0);
      for (size_t i = 0; i < p.axes.size(); ++i) out[p.axes[i]] = p.extents[i];
      c.out(c.dtype(0), out);
      return {};
    },
    .decompose =
        [](DecomposeCtx& c) {
          const TensorType x = c.type(0), shape = c.type(1);
          const InferCtx infer(c.who(), {&x, &shape}, {nullptr, c.constant(1)}, c.raw_attrs());
          const auto p = crop_pad(infer);
          if (!p.ok()) return c.b.fail(p.status());
          c.set(0, c.b.emit(op::pad, {c.in(0)}, as_padding(*p, x.shape)));
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
