// SPDX-License-Identifier: Apache-2.0
// Blocks of an image as columns, and columns added up to an image: adjoints of each other, for any
// number of spatial axes.
#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"

namespace hone {

namespace {

// Shape::product and the walks below take at most kMaxRank axes in all: image and block each have
// one less than half of them.
constexpr size_t kMostAxes = 3;

struct Geometry {
  int rank = 0;
  std::array<int64_t, kMostAxes> image{}, block{}, stride{}, dilation{}, pad{}, out{};
  int64_t pixels = 1, taps = 1, blocks = 1;
};

// One entry of an optional list.
int64_t entry(const std::vector<int64_t>& list, size_t k, int64_t otherwise) {
  return list.empty() ? otherwise : list[k];
}

Result<Geometry> geometry_of(const Col2ImAttrs& a) {
  Geometry g;
  const size_t rank = a.image.size();
  if (rank < 1 || rank > kMostAxes) return unsupported("{} spatial axes; 1 to 3 are offered", rank);
  for (const auto* list : {&a.block, &a.strides, &a.dilations, &a.pads_begin, &a.pads_end})
    if (list->size() != rank && (list == &a.block || !list->empty()))
      return invalid("a list has {} entries for {} spatial axes", list->size(), rank);
  // Three of them multiply without overflow.
  constexpr int64_t kLargest = int64_t{1} << 20;
  g.rank = static_cast<int>(rank);
  for (size_t k = 0; k < rank; ++k) {
    g.image[k] = a.image[k];
    g.block[k] = a.block[k];
    g.stride[k] = entry(a.strides, k, 1);
    g.dilation[k] = entry(a.dilations, k, 1);
    g.pad[k] = entry(a.pads_begin, k, 0);
    const int64_t end = entry(a.pads_end, k, 0);
    for (int64_t v : {g.image[k], g.block[k], g.stride[k], g.dilation[k]})
      if (v < 1 || v > kLargest) return invalid("an extent, stride or dilation is {}", v);
    for (int64_t v : {g.pad[k], end})
      if (v < 0 || v > kLargest) return invalid("a pad is {}", v);
    const int64_t span = (g.block[k] - 1) * g.dilation[k] + 1;
    if (span > g.image[k] + g.pad[k] + end)
      return invalid("a block spans {}, the padded image only {}", span,
                     g.image[k] + g.pad[k] + end);
    g.out[k] = (g.image[k] + g.pad[k] + end - span) / g.stride[k] + 1;
    g.pixels *= g.image[k];
    g.taps *= g.block[k];
    g.blocks *= g.out[k];
  }
  return g;
}

Result<Geometry> need_geometry(const InferCtx& c, const Col2ImAttrs& a) {
  auto g = geometry_of(a);
  if (!g.ok()) return g.status().with_context(c.who());
  return g;
}

// Calls f(tap, block, pixel) for the taps that lie on the image.
template <class F>
void for_taps(const Geometry& g, F f) {
  for (int64_t tap = 0; tap < g.taps; ++tap)
    for (int64_t block = 0; block < g.blocks; ++block) {
      int64_t pixel = 0, rest_tap = tap, rest_block = block, step = 1;
      bool inside = true;
      for (int k = g.rank - 1; k >= 0; --k) {
        const size_t i = static_cast<size_t>(k);
        const int64_t at =
            rest_block % g.out[i] * g.stride[i] - g.pad[i] + rest_tap % g.block[i] * g.dilation[i];
        inside &= at >= 0 && at < g.image[i];
        pixel += at * step;
        step *= g.image[i];
        rest_tap /= g.block[i];
        rest_block /= g.out[i];
      }
      if (inside) f(tap, block, pixel);
    }
}

Shape image_shape(int64_t batch, int64_t channels, const Col2ImAttrs& a) {
  Shape s = {batch, channels};
  for (int64_t extent : a.image) s.push_back(extent);
  return s;
}

Status infer_col2im(InferCtx& c, const Col2ImAttrs& a) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank(c, 0, 3));
  HONE_ASSIGN(const Geometry g, need_geometry(c, a));
  const Shape& s = c.shape(0);
  if (s[1] % g.taps != 0 || s[2] != g.blocks)
    return c.error("columns {}, expected (N, C * {}, {})", s, g.taps, g.blocks);
  c.out(c.dtype(0), image_shape(s[0], s[1] / g.taps, a));
  return {};
}

Status col2im_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Geometry g, geometry_of(args.attrs.as<Col2ImAttrs>()));
  const int64_t planes = args.shape(0)[0] * args.shape(0)[1] / g.taps;
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    S* sums = reinterpret_cast<S*>(args.scratch);
    for (int64_t plane = 0; plane < planes; ++plane) {
      const T* x = args.input<T>(0) + plane * g.taps * g.blocks;
      T* y = args.output<T>(0) + plane * g.pixels;
      std::fill_n(sums, g.pixels, S(0));
      for_taps(g, [&](int64_t tap, int64_t block, int64_t pixel) {
        sums[pixel] += static_cast<S>(x[tap * g.blocks + block]);
      });
      for (int64_t i = 0; i < g.pixels; ++i) y[i] = static_cast<T>(sums[i]);
    }
  });
  return {};
}

Status im2col_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Geometry g, geometry_of(args.attrs.as<Col2ImAttrs>()));
  const int64_t planes = args.shape(0)[0] * args.shape(0)[1];
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_ranges(args.pool, planes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* x = args.input<T>(0) + plane * g.pixels;
        T* y = args.output<T>(0) + plane * g.taps * g.blocks;
        std::fill_n(y, g.taps * g.blocks, T(0.0f));
        for_taps(g, [&](int64_t tap, int64_t block, int64_t pixel) {
          y[tap * g.blocks + block] = x[pixel];
        });
      }
    });
  });
  return {};
}

Result<Col2ImAttrs> resolved(const InferCtx& c) {
  Col2ImAttrs a = c.attrs<Col2ImAttrs>();
  HONE_ASSIGN(a.image, need_constant_ints(c, 1));
  HONE_ASSIGN(a.block, need_constant_ints(c, 2));
  return a;
}

}  // namespace

// col2im(x): an image whose pixel is the sum of the column elements that block windows put there
// (ONNX Col2Im).   (N, C * taps, blocks) -> (N, C, image..)
const OpDef op::col2im = {
    .name = "col2im",
    .attrs = &kAttrSchema<Col2ImAttrs>,
    .infer = [](InferCtx& c) { return infer_col2im(c, c.attrs<Col2ImAttrs>()); },
    .diff = Diff::rule,
    .grad = [](GradCtx& c) { c.set(0, c.b.emit(op::im2col, {c.out_grad(0)}, c.raw_attrs())); },
    .kernel = col2im_kernel,
    .scratch = [](const NodeTypes& t) -> int64_t {
      const Shape& y = t.out[0]->shape;
      return y.product(2, y.rank()) * (t.out[0]->dtype == DType::f64 ? 8 : 4);
    },
};

// col2im_dyn(x, image, block): col2im whose extents are inputs, which must be constant once the
// graph is specialised.
const OpDef op::col2im_dyn = {
    .name = "col2im_dyn",
    .attrs = &kAttrSchema<Col2ImAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const Col2ImAttrs a, resolved(c));
      return infer_col2im(c, a);
    },
    .decompose =
        [](DecomposeCtx& c) {
          Col2ImAttrs a = c.attrs<Col2ImAttrs>();
          a.image = to_ints(*c.constant(1));
          a.block = to_ints(*c.constant(2));
          c.set(0, c.b.emit(op::col2im, {c.in(0)}, a));
        },
    .diff = Diff::by_decomposition,
};

// im2col(x): the elements under each block window as a column; zeros beyond the image.   (N, C,
// image..) -> (N, C * taps, blocks)
const OpDef op::im2col = {
    .name = "im2col",
    .attrs = &kAttrSchema<Col2ImAttrs>,
    .infer = [](InferCtx& c) -> Status {
      const Col2ImAttrs& a = c.attrs<Col2ImAttrs>();
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_TRY(need_rank_at_least(c, 0, 3));
      HONE_ASSIGN(const Geometry g, need_geometry(c, a));
      const Shape& s = c.shape(0);
      if (s != image_shape(s[0], s[1], a))
        return c.error("the image is {}, expected {}", s, image_shape(s[0], s[1], a));
      c.out(c.dtype(0), {s[0], s[1] * g.taps, g.blocks});
      return {};
    },
    .diff = Diff::rule,
    .grad = [](GradCtx& c) { c.set(0, c.b.emit(op::col2im, {c.out_grad(0)}, c.raw_attrs())); },
    .kernel = im2col_kernel,
    .flops = no_flops,
};

}  // namespace hone
