// SPDX-License-Identifier: Apache-2.0
// Maximum pooling that tells where the maxima lie, and its way back.
#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"
#include "hone/window.hpp"

namespace hone {

namespace {

Status infer_indices(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  const auto w = pool_window(c.attrs<MaxPoolIndicesAttrs>().pool, c.shape(0));
  if (!w.ok()) return w.status().with_context(c.who());
  Shape y = {c.shape(0)[0], c.shape(0)[1]};
  for (int k = 0; k < w->rank; ++k) y.push_back(w->spatial(k).out);
  c.out(c.dtype(0), y);
  c.out(DType::i64, y);
  return {};
}

struct Position {
  int64_t d = 0, h = 0, w = 0;
};

// The first of equal maxima, or the first NaN; every window has a tap on the input.
template <class S, class T>
Position find_max(const T* plane, const Window& win, const Position& out, S& largest) {
  const WindowAxis &d = win.depth(), &h = win.height(), &w = win.width();
  Position best;
  bool found = false;
  for (int64_t kd = 0; kd < d.kernel; ++kd)
    for (int64_t kh = 0; kh < h.kernel; ++kh)
      for (int64_t kw = 0; kw < w.kernel; ++kw) {
        const Position p{d.start(out.d) + kd * d.dilation, h.start(out.h) + kh * h.dilation,
                         w.start(out.w) + kw * w.dilation};
        if (p.d < 0 || p.d >= d.in || p.h < 0 || p.h >= h.in || p.w < 0 || p.w >= w.in) continue;
        const S v = static_cast<S>(plane[(p.d * h.in + p.h) * w.in + p.w]);
        if (found && !(v > largest) && !(v != v && largest == largest)) continue;
        found = true;
        best = p;
        largest = v;
      }
  return best;
}

// Within a plane, in the order asked for.
int64_t flat(const Window& win, const Position& p, bool column_major) {
  const int64_t D = win.depth().in, H = win.height().in, W = win.width().in;
  if (!column_major) return (p.d * H + p.h) * W + p.w;
  // The last axis is the outermost one; missing axes have extent 1.
  return (p.w * H + p.h) * D + p.d;
}

Status indices_kernel(const KernelArgs& args) {
  const MaxPoolIndicesAttrs& attrs = args.attrs.as<MaxPoolIndicesAttrs>();
  const Shape& x = args.shape(0);
  HONE_ASSIGN(const Window win, pool_window(attrs.pool, x));
  dispatch(args.in[0].type.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      using S = std::conditional_t<is_float_type<T>, accumulator_t<T>, T>;
      for_ranges(args.pool, x[0] * x[1], 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) {
          int64_t o = plane * win.out_size();
          Position at;
          for (at.d = 0; at.d < win.depth().out; ++at.d)
            for (at.h = 0; at.h < win.height().out; ++at.h)
              for (at.w = 0; at.w < win.width().out; ++at.w, ++o) {
                S largest{};
                const Position p =
                    find_max(args.input<T>(0) + plane * win.in_size(), win, at, largest);
                args.output<T>(0)[o] = static_cast<T>(largest);
                args.output<int64_t>(1)[o] =
                    plane * win.in_size() + flat(win, p, attrs.column_major);
              }
        }
      });
    }
  });
  return {};
}

// ---- max_unpool(x, indices, shape?)

Status infer_unpool(InferCtx& c) {
  const MaxUnpoolAttrs& a = c.attrs<MaxUnpoolAttrs>();
  HONE_TRY(need(c, 0, Accepts::any));
  HONE_TRY(need(c, 1, Accepts::indices));
  HONE_TRY(need_rank_at_least(c, 0, 3));
  if (c.shape(0) != c.shape(1))
    return c.error("values {} and indices {} differ in shape", c.shape(0), c.shape(1));
  const size_t rank = static_cast<size_t>(c.shape(0).rank() - 2);
  if (a.kernel.size() != rank)
    return c.error("the kernel has {} axes, the input {} spatial ones", a.kernel.size(), rank);
  constexpr int64_t kLargest = int64_t{1} << 24;
  for (const auto* list : {&a.kernel, &a.strides, &a.pads_begin, &a.pads_end}) {
    if (!list->empty() && list->size() != rank)
      return c.error("a list has {} entries for {} spatial axes", list->size(), rank);
    for (int64_t v : *list)
      if (v < 0 || v > kLargest)
        return c.error("a kernel, stride or pad is {}, outside [0, {}]", v, kLargest);
  }
  Shape y = c.shape(0);
  for (size_t k = 0; k < rank; ++k) {
    const auto entry = [&](const std::vector<int64_t>& l, int64_t def) {
      return l.empty() ? def : l[k];
    };
    int64_t& extent = y[static_cast<int>(k) + 2];
    extent = (extent - 1) * entry(a.strides, 1) + a.kernel[k] - entry(a.pads_begin, 0) -
             entry(a.pads_end, 0);
    if (extent < 1) return c.error("spatial axis {} would have extent {}", k, extent);
  }
  const auto bytes = checked_bytes(y, c.dtype(0));
  if (!bytes.ok()) return bytes.status().with_context(c.who());
  if (c.has(2)) {
    HONE_ASSIGN(const std::vector<int64_t> given, need_constant_ints(c, 2));
    auto shape = Shape::make(given);
    if (!shape.ok()) return shape.status().with_context(c.who());
    if (shape->rank() != c.shape(0).rank() || (*shape)[0] != c.shape(0)[0] ||
        (*shape)[1] != c.shape(0)[1])
      return c.error("the output shape {} does not fit {}", *shape, c.shape(0));
    c.out(c.dtype(0), *shape);
    return {};
  }
  c.out(c.dtype(0), y);
  return {};
}

// The indices count in the shape that the geometry gives; a larger one is asked for by `shape`,
// which has it in its corner.
void decompose_unpool(DecomposeCtx& c) {
  const MaxUnpoolAttrs& a = c.attrs<MaxUnpoolAttrs>();
  Shape inner = c.shape(0);
  for (size_t k = 0; k < a.kernel.size(); ++k) {
    int64_t& extent = inner[static_cast<int>(k) + 2];
    extent = (extent - 1) * (a.strides.empty() ? 1 : a.strides[k]) + a.kernel[k] -
             (a.pads_begin.empty() ? 0 : a.pads_begin[k]) -
             (a.pads_end.empty() ? 0 : a.pads_end[k]);
  }
  const Shape all = {c.shape(0).numel()};
  const Value zeros = ops::fill(c.b, {c.type(0).dtype, {inner.numel()}}, 0);
  Value y = c.b.emit(op::scatter_elements,
                     {zeros, ops::reshape(c.in(1), all), ops::reshape(c.in(0), all)},
                     ScatterAttrs{0, ScatterMode::assign});
  y = ops::reshape(y, inner);
  if (c.has(2)) {
    PadAttrs pad;
    const std::vector<int64_t> wanted = to_ints(*c.constant(2));
    for (int i = 0; i < inner.rank(); ++i) {
      pad.before.push_back(0);
      pad.after.push_back(wanted[static_cast<size_t>(i)] - inner[i]);
    }
    y = c.b.emit(op::pad, {y}, pad);
  }
  c.set(0, y);
}

}  // namespace

// max_pool_indices(x): max_pool, and where in the flattened input each maximum lies.   (N, C, in..)
// -> (N, C, out..) twice
const OpDef op::max_pool_indices = {
    .name = "max_pool_indices",
    .attrs = &kAttrSchema<MaxPoolIndicesAttrs>,
    .infer = infer_indices,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::max_pool_grad, {c.in(0), c.out_grad(0)},
                            c.attrs<MaxPoolIndicesAttrs>().pool));
        },
    .kernel = indices_kernel,
};

// max_unpool(x, indices, shape?): zeros with x written at the indices (ONNX MaxUnpool).   (N, C,
// out..) twice -> (N, C, in..)
const OpDef op::max_unpool = {
    .name = "max_unpool",
    .attrs = &kAttrSchema<MaxUnpoolAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_unpool,
    .decompose = decompose_unpool,
    .diff = Diff::by_decomposition,
    .flops = no_flops,
};

}  // namespace hone
