// SPDX-License-Identifier: Apache-2.0
// Pooling of regions at fractional positions (He et al. 2017; ONNX RoiAlign).
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"

namespace hone {

namespace {

// A bilinear sample: four elements of a plane and their weights.
struct Sample {
  int64_t at[4];
  double weight[4];  // all zero outside
};

Sample sample_at(double y, double x, int64_t height, int64_t width) {
  Sample s{};
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width)))
    return s;
  const auto along = [](double v, int64_t n, int64_t& low, int64_t& high) {
    v = std::max(v, 0.0);
    low = static_cast<int64_t>(v);
    if (low >= n - 1) {
      low = high = n - 1;
      return 0.0;
    }
    high = low + 1;
    return v - static_cast<double>(low);
  };
  int64_t y0, y1, x0, x1;
  const double fy = along(y, height, y0, y1), fx = along(x, width, x0, x1);
  const int64_t at[] = {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1};
  const double weight[] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  std::copy_n(at, 4, s.at);
  std::copy_n(weight, 4, s.weight);
  return s;
}

// Where one region's bins and their samples lie.
struct Region {
  double y, x, bin_height, bin_width;
  int64_t rows, columns;  // samples of a bin
  Sample sample(int64_t ph, int64_t pw, int64_t i, int64_t k, int64_t height, int64_t width) const {
    const auto place = [](double start, int64_t bin, double size, int64_t index, int64_t count) {
      return start + static_cast<double>(bin) * size +
             (static_cast<double>(index) + 0.5) * size / static_cast<double>(count);
    };
    return sample_at(place(y, ph, bin_height, i, rows), place(x, pw, bin_width, k, columns), height,
                     width);
  }
};

// A region of a hostile size must not take for ever.
constexpr double kMostSamples = 4096;

template <class T>
Region region_of(const T* roi, const RoiAlignAttrs& a) {
  double edge[4];
  const double offset = a.half_pixel ? 0.5 : 0;
  for (int i = 0; i < 4; ++i)
    edge[i] = static_cast<double>(static_cast<accumulator_t<T>>(roi[i])) * a.scale - offset;
  double width = edge[2] - edge[0], height = edge[3] - edge[1];
  if (!a.half_pixel) width = std::max(width, 1.0), height = std::max(height, 1.0);
  Region r{edge[1],
           edge[0],
           height / static_cast<double>(a.height),
           width / static_cast<double>(a.width),
           a.sampling_ratio,
           a.sampling_ratio};
  const auto samples = [](double bin) {
    return bin > 0 ? static_cast<int64_t>(std::ceil(std::min(bin, kMostSamples))) : int64_t{0};
  };
  if (a.sampling_ratio == 0) r.rows = samples(r.bin_height), r.columns = samples(r.bin_width);
  return r;
}

Status need_regions(const InferCtx& c, const Shape& x, int rois, int batch) {
  const RoiAlignAttrs& a = c.attrs<RoiAlignAttrs>();
  if (x.rank() != 4) return c.error("the input is {}, expected (N, C, H, W)", x);
  HONE_TRY(need(c, rois, Accepts::floats));
  HONE_TRY(need(c, batch, Accepts::indices));
  HONE_TRY(need_rank(c, rois, 2));
  if (c.shape(rois)[1] != 4 || c.shape(batch) != Shape{c.shape(rois)[0]})
    return c.error("regions {} and batch indices {}, expected [R, 4] and [R]", c.shape(rois),
                   c.shape(batch));
  constexpr int64_t kLargest = int64_t{1} << 20;
  if (a.height < 1 || a.width < 1 || a.height > kLargest || a.width > kLargest)
    return c.error("the output would be {} by {}", a.height, a.width);
  if (a.sampling_ratio < 0 || a.sampling_ratio > static_cast<int64_t>(kMostSamples))
    return c.error("the sampling ratio is {}", a.sampling_ratio);
  return {};
}

Result<int64_t> image_of(const ConstTensorView& batch, int64_t region, int64_t images) {
  const int64_t n = batch.type.dtype == DType::i32 ? int64_t{batch.as<int32_t>()[region]}
                                                   : batch.as<int64_t>()[region];
  if (n >= 0 && n < images) return n;
  return invalid("region {} lies in image {} of {}", region, n, images);
}

// The largest weighted corner of all samples (ONNX), and whose it is; -1 without samples.
template <class T>
double largest(const T* plane, const Region& r, int64_t ph, int64_t pw, int64_t h, int64_t w,
               int64_t& at, double& weight) {
  double best = 0;
  at = -1;
  for (int64_t i = 0; i < r.rows; ++i)
    for (int64_t k = 0; k < r.columns; ++k) {
      const Sample s = r.sample(ph, pw, i, k, h, w);
      for (int q = 0; q < 4; ++q) {
        const double v =
            s.weight[q] * static_cast<double>(static_cast<accumulator_t<T>>(plane[s.at[q]]));
        if (at >= 0 && !(v > best)) continue;
        best = v;
        at = s.at[q];
        weight = s.weight[q];
      }
    }
  return best;
}

// Calls f(plane of x, index of the output, bin row, bin column) for all channels and bins of a
// region.
template <class F>
void for_bins(const Shape& x, const RoiAlignAttrs& a, int64_t image, int64_t region, F f) {
  for (int64_t ch = 0; ch < x[1]; ++ch)
    for (int64_t ph = 0; ph < a.height; ++ph)
      for (int64_t pw = 0; pw < a.width; ++pw)
        f((image * x[1] + ch) * x[2] * x[3], ((region * x[1] + ch) * a.height + ph) * a.width + pw,
          ph, pw);
}

Status check_images(const ConstTensorView& batch, int64_t images) {
  for (int64_t i = 0; i < batch.numel(); ++i) HONE_TRY(image_of(batch, i, images).status());
  return {};
}
int64_t image_at(const ConstTensorView& batch, int64_t region) {
  return batch.type.dtype == DType::i32 ? int64_t{batch.as<int32_t>()[region]}
                                        : batch.as<int64_t>()[region];
}

Status align_kernel(const KernelArgs& args) {
  const RoiAlignAttrs& a = args.attrs.as<RoiAlignAttrs>();
  const Shape& s = args.shape(0);
  HONE_TRY(check_images(args.in[2], s[0]));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_ranges(args.pool, args.shape(1)[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t region = begin; region < end; ++region) {
        const Region r = region_of(args.input<T>(1) + region * 4, a);
        for_bins(s, a, image_at(args.in[2], region), region,
                 [&](int64_t from, int64_t to, int64_t ph, int64_t pw) {
                   const T* plane = args.input<T>(0) + from;
                   double sum = 0, unused = 0;
                   int64_t at = -1;
                   if (a.mode == RoiMode::max) {
                     sum = largest(plane, r, ph, pw, s[2], s[3], at, unused);
                   } else {
                     for (int64_t i = 0; i < r.rows; ++i)
                       for (int64_t k = 0; k < r.columns; ++k) {
                         const Sample p = r.sample(ph, pw, i, k, s[2], s[3]);
                         for (int q = 0; q < 4; ++q)
                           sum += p.weight[q] * static_cast<double>(
                                                    static_cast<accumulator_t<T>>(plane[p.at[q]]));
                       }
                     sum /= static_cast<double>(std::max<int64_t>(1, r.rows * r.columns));
                   }
                   args.output<T>(0)[to] = static_cast<T>(sum);
                 });
      }
    });
  });
  return {};
}

// (gy, x, rois, batch) -> gx. One thread: regions overlap.
Status align_grad_kernel(const KernelArgs& args) {
  const RoiAlignAttrs& a = args.attrs.as<RoiAlignAttrs>();
  const Shape& s = args.shape(1);
  HONE_TRY(check_images(args.in[3], s[0]));
  double* const sums = reinterpret_cast<double*>(args.scratch);
  std::fill_n(sums, s.numel(), 0.0);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for (int64_t region = 0; region < args.shape(2)[0]; ++region) {
      const Region r = region_of(args.input<T>(2) + region * 4, a);
      for_bins(s, a, image_at(args.in[3], region), region,
               [&](int64_t to, int64_t from, int64_t ph, int64_t pw) {
                 const double g =
                     static_cast<double>(static_cast<accumulator_t<T>>(args.input<T>(0)[from]));
                 if (a.mode == RoiMode::max) {
                   int64_t at = -1;
                   double weight = 0;
                   largest(args.input<T>(1) + to, r, ph, pw, s[2], s[3], at, weight);
                   if (at >= 0) sums[to + at] += g * weight;
                   return;
                 }
                 const double share =
                     g / static_cast<double>(std::max<int64_t>(1, r.rows * r.columns));
                 for (int64_t i = 0; i < r.rows; ++i)
                   for (int64_t k = 0; k < r.columns; ++k) {
                     const Sample p = r.sample(ph, pw, i, k, s[2], s[3]);
                     for (int q = 0; q < 4; ++q) sums[to + p.at[q]] += share * p.weight[q];
                   }
               });
    }
    for (int64_t i = 0; i < s.numel(); ++i) args.output<T>(0)[i] = static_cast<T>(sums[i]);
  });
  return {};
}

double align_flops(const NodeTypes& t) { return 32.0 * static_cast<double>(t.out[0]->numel()); }

}  // namespace

// roi_align(x, rois, batch): for each region (x1, y1, x2, y2 of image batch[r]) a grid of bins, the
// mean (or maximum) of bilinear samples.   (N, C, H, W), (R, 4), (R) -> (R, C, height, width)
// Regions have no gradient: who trains with them holds them fixed.
const OpDef op::roi_align = {
    .name = "roi_align",
    .attrs = &kAttrSchema<RoiAlignAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = [](InferCtx& c) -> Status {
      const RoiAlignAttrs& a = c.attrs<RoiAlignAttrs>();
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_TRY(need_same_dtype(c, 0, 1));
      HONE_TRY(need_regions(c, c.shape(0), 1, 2));
      c.out(c.dtype(0), {c.shape(1)[0], c.shape(0)[1], a.height, a.width});
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          if (c.needs(1)) c.b.fail(unsupported("roi_align: no gradient is known for the regions"));
          c.set(0, c.b.emit(op::roi_align_grad, {c.out_grad(0), c.in(0), c.in(1), c.in(2)},
                            c.raw_attrs()));
        },
    .kernel = align_kernel,
    .flops = align_flops,
};

// roi_align_grad(gy, x, rois, batch): the gradient of x.   (R, C, height, width), (N, C, H, W), (R,
// 4), (R) -> (N, C, H, W)
const OpDef op::roi_align_grad = {
    .name = "roi_align_grad",
    .attrs = &kAttrSchema<RoiAlignAttrs>,
    .min_inputs = 4,
    .max_inputs = 4,
    .infer = [](InferCtx& c) -> Status {
      const RoiAlignAttrs& a = c.attrs<RoiAlignAttrs>();
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_TRY(need_same_dtype(c, 0, 1));
      HONE_TRY(need_same_dtype(c, 0, 2));
      HONE_TRY(need_regions(c, c.shape(1), 2, 3));
      const Shape y = {c.shape(2)[0], c.shape(1)[1], a.height, a.width};
      if (c.shape(0) != y)
        return c.error("the output's gradient is {}, expected {}", c.shape(0), y);
      c.out(c.in(1));
      return {};
    },
    .diff = Diff::missing,
    .kernel = align_grad_kernel,
    .scratch = [](const NodeTypes& t) -> int64_t {
      return t.out[0]->numel() * static_cast<int64_t>(sizeof(double));
    },
    .flops = [](const NodeTypes& t) { return 32.0 * static_cast<double>(t.in[0]->numel()); },
};

}  // namespace hone
