// SPDX-License-Identifier: Apache-2.0
// Sampling of images and volumes at given places (Jaderberg et al. 2015; ONNX GridSample), and the
// affine grids that go with it.
//
// Along each axis a place becomes up to four taps: elements, their weights, and how the weights
// change with the place. A sample is the sum over all combinations, whatever the number of axes,
// and so are both gradients.
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"

namespace hone {

namespace {

constexpr int kMostTaps = 4;

struct Taps {
  int count = 0;
  int64_t at[kMostTaps] = {};  // -1: nothing there
  double weight[kMostTaps] = {};
  double slope[kMostTaps] = {};  // d weight / d grid coordinate
};

// x mirrored at low and high as often as it takes; flips the sign of the slope each time.
double reflect(double x, double low, double high, double& slope) {
  const double range = high - low;
  if (range <= 0) {
    slope = 0;
    return low;
  }
  double offset = std::fabs(x - low);
  const double sign = x < low ? -1 : 1;
  const double turns = std::floor(offset / range);
  offset -= turns * range;
  const bool odd = std::fmod(turns, 2) != 0;
  slope *= odd ? -sign : sign;
  return odd ? high - offset : low + offset;
}

// Keys' kernel with a = -0.75, and its derivative.
double cubic(double d, double& slope) {
  constexpr double a = -0.75;
  const double x = std::fabs(d), sign = d < 0 ? -1 : 1;
  if (x <= 1) {
    slope = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  if (x >= 2) return slope = 0;
  slope = sign * ((3 * a * x - 10 * a) * x + 8 * a);
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

int64_t element(int64_t i, int64_t n, const GridSampleAttrs& attrs, double low, double high) {
  if (i >= 0 && i < n) return i;
  switch (attrs.padding) {
    case SamplePadding::zeros:
      break;
    case SamplePadding::border:
      return i < 0 ? 0 : n - 1;
    case SamplePadding::reflection: {
      double unused = 1;
      const double r = reflect(static_cast<double>(i), low, high, unused);
      return std::min<int64_t>(n - 1, std::max<int64_t>(0, static_cast<int64_t>(r)));
    }
  }
  return -1;
}

Taps taps_of(double g, int64_t n, const GridSampleAttrs& attrs) {
  const double extent = static_cast<double>(n);
  const double low = attrs.align_corners ? 0 : -0.5,
               high = attrs.align_corners ? extent - 1 : extent - 0.5;
  double slope = attrs.align_corners ? (extent - 1) / 2 : extent / 2;
  double x = attrs.align_corners ? (g + 1) / 2 * (extent - 1) : ((g + 1) * extent - 1) / 2;
  if (attrs.mode == SampleMode::nearest) x = std::nearbyint(x), slope = 0;
  if (x < low || x > high) {
    if (attrs.padding == SamplePadding::border) {
      x = x < 0 ? 0 : extent - 1;
      slope = 0;
    } else if (attrs.padding == SamplePadding::reflection) {
      x = reflect(x, low, high, slope);
    }
  } else if (attrs.padding == SamplePadding::border && (x < 0 || x > extent - 1)) {
    x = x < 0 ? 0 : extent - 1;
    slope = 0;
  }
  Taps t;
  if (!(std::fabs(x) < 1e15)) return t;  // nowhere, or not a number
  const double floor = std::floor(x);
  const int64_t first = static_cast<int64_t>(floor);
  const auto put = [&](int64_t i, double w, double s) {
    t.at[t.count] = element(i, n, attrs, low, high);
    t.weight[t.count] = w;
    t.slope[t.count++] = s * slope;
  };
  switch (attrs.mode) {
    case SampleMode::nearest:
      put(static_cast<int64_t>(std::nearbyint(x)), 1, 0);
      break;
    case SampleMode::linear:
      put(first, 1 - (x - floor), -1);
      put(first + 1, x - floor, 1);
      break;
    case SampleMode::cubic:
      for (int64_t k = -1; k <= 2; ++k) {
        double s = 0;
        const double w = cubic(x - static_cast<double>(first + k), s);
        put(first + k, w, s);
      }
      break;
  }
  return t;
}

struct Extents {
  int64_t batch, channels, planes_in, places;
  int rank;
  std::array<int64_t, 3> in;  // depth (1 for images), height, width
};

Extents extents_of(const Shape& x, const Shape& grid) {
  Extents e{x[0],         x[1],     x.product(2, x.rank()), grid.product(1, grid.rank() - 1),
            x.rank() - 2, {1, 1, 1}};
  for (int k = 0; k < e.rank; ++k) e.in[static_cast<size_t>(3 - e.rank + k)] = x[2 + k];
  return e;
}

using Place = std::array<Taps, 3>;  // depth, height, width

// The grid's last axis counts from the innermost spatial axis outwards: x, y, z.
template <class T>
Place place_of(const T* grid, const Extents& e, const GridSampleAttrs& attrs) {
  Place p;
  p[0].count = 1;
  p[0].weight[0] = 1;
  for (int k = 0; k < e.rank; ++k) {
    const size_t axis = static_cast<size_t>(2 - k);
    p[axis] =
        taps_of(static_cast<double>(static_cast<accumulator_t<T>>(grid[k])), e.in[axis], attrs);
  }
  return p;
}

// Calls f(element, i, j, k) for the combinations of taps that have an element.
template <class F>
void for_taps(const Place& p, const Extents& e, F f) {
  for (int i = 0; i < p[0].count; ++i)
    for (int j = 0; j < p[1].count; ++j)
      for (int k = 0; k < p[2].count; ++k) {
        if (p[0].at[i] < 0 || p[1].at[j] < 0 || p[2].at[k] < 0) continue;
        f((p[0].at[i] * e.in[1] + p[1].at[j]) * e.in[2] + p[2].at[k], i, j, k);
      }
}

Status need_grid(const InferCtx& c, int input, const GridSampleAttrs& attrs, const Shape& x) {
  HONE_TRY(need(c, input, Accepts::floats));
  if (x.rank() != 4 && x.rank() != 5)
    return c.error("the input is {}, expected 2 or 3 spatial axes", x);
  const Shape& grid = c.shape(input);
  if (grid.rank() != x.rank() || grid[0] != x[0] || grid[grid.rank() - 1] != x.rank() - 2)
    return c.error("the grid is {}, expected ({}, places.., {})", grid, x[0], x.rank() - 2);
  for (int k = 2; k < x.rank(); ++k)
    if (x[k] < 1) return c.error("the input {} has no elements to sample", x);
  if (attrs.mode == SampleMode::cubic && x.rank() != 4)
    return c.error("cubic sampling takes 2 spatial axes, the input is {}", x);
  return {};
}

Shape sampled(const Shape& x, const Shape& grid) {
  Shape y = {x[0], x[1]};
  for (int k = 1; k < grid.rank() - 1; ++k) y.push_back(grid[k]);
  return y;
}

Status sample_kernel(const KernelArgs& args) {
  const GridSampleAttrs& attrs = args.attrs.as<GridSampleAttrs>();
  const Extents e = extents_of(args.shape(0), args.shape(1));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_ranges(args.pool, e.batch * e.places, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / e.places, at = i % e.places;
        const Place p = place_of(args.input<T>(1) + i * e.rank, e, attrs);
        for (int64_t ch = 0; ch < e.channels; ++ch) {
          const int64_t plane = n * e.channels + ch;
          const T* x = args.input<T>(0) + plane * e.planes_in;
          double sum = 0;
          for_taps(p, e, [&](int64_t from, int a, int b, int d) {
            sum += p[0].weight[a] * p[1].weight[b] * p[2].weight[d] *
                   static_cast<double>(static_cast<accumulator_t<T>>(x[from]));
          });
          args.output<T>(0)[plane * e.places + at] = static_cast<T>(sum);
        }
      }
    });
  });
  return {};
}

// ---- gradients

Shape input_shape(const Shape& gy, const GridSampleGradAttrs& a) {
  Shape x = {gy[0], gy[1]};
  for (int64_t extent : a.spatial) x.push_back(extent);
  return x;
}

Status infer_input_grad(InferCtx& c) {
  const GridSampleGradAttrs& a = c.attrs<GridSampleGradAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 1));
  HONE_TRY(need_rank_at_least(c, 0, 3));
  if (a.spatial.size() < 1 || a.spatial.size() > 3)
    return c.error("{} spatial extents, expected 2 or 3", a.spatial.size());
  const Shape x = input_shape(c.shape(0), a);
  HONE_TRY(need_grid(c, 1, a.sample, x));
  if (c.shape(0) != sampled(x, c.shape(1)))
    return c.error("the output's gradient is {}, expected {}", c.shape(0), sampled(x, c.shape(1)));
  c.out(c.dtype(0), x);
  return {};
}

// Planes are shared out: each is added to by one thread, in order.
Status input_grad_kernel(const KernelArgs& args) {
  const GridSampleAttrs& attrs = args.attrs.as<GridSampleGradAttrs>().sample;
  const Extents e = extents_of(args.out[0].type.shape, args.shape(1));
  double* const all = reinterpret_cast<double*>(args.scratch);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_ranges(args.pool, e.batch * e.channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        double* sums = all + plane * e.planes_in;
        std::fill_n(sums, e.planes_in, 0.0);
        const T* grid = args.input<T>(1) + plane / e.channels * e.places * e.rank;
        for (int64_t at = 0; at < e.places; ++at) {
          const Place p = place_of(grid + at * e.rank, e, attrs);
          const double g = static_cast<double>(
              static_cast<accumulator_t<T>>(args.input<T>(0)[plane * e.places + at]));
          for_taps(p, e, [&](int64_t to, int a, int b, int d) {
            sums[to] += g * p[0].weight[a] * p[1].weight[b] * p[2].weight[d];
          });
        }
        for (int64_t i = 0; i < e.planes_in; ++i)
          args.output<T>(0)[plane * e.planes_in + i] = static_cast<T>(sums[i]);
      }
    });
  });
  return {};
}

Status infer_grid_grad(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 1));
  HONE_TRY(need_same_dtype(c, 0, 2));
  HONE_TRY(need_grid(c, 2, c.attrs<GridSampleAttrs>(), c.shape(1)));
  if (c.shape(0) != sampled(c.shape(1), c.shape(2)))
    return c.error("the output's gradient is {}, expected {}", c.shape(0),
                   sampled(c.shape(1), c.shape(2)));
  c.out(c.in(2));
  return {};
}

Status grid_grad_kernel(const KernelArgs& args) {
  const GridSampleAttrs& attrs = args.attrs.as<GridSampleAttrs>();
  const Extents e = extents_of(args.shape(1), args.shape(2));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    for_ranges(args.pool, e.batch * e.places, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / e.places, at = i % e.places;
        const Place p = place_of(args.input<T>(2) + i * e.rank, e, attrs);
        double g[3] = {};  // depth, height, width
        for (int64_t ch = 0; ch < e.channels; ++ch) {
          const int64_t plane = n * e.channels + ch;
          const T* x = args.input<T>(1) + plane * e.planes_in;
          const double gy =
              static_cast<double>(static_cast<S>(args.input<T>(0)[plane * e.places + at]));
          for_taps(p, e, [&](int64_t from, int a, int b, int d) {
            const double v = gy * static_cast<double>(static_cast<S>(x[from]));
            g[0] += v * p[0].slope[a] * p[1].weight[b] * p[2].weight[d];
            g[1] += v * p[0].weight[a] * p[1].slope[b] * p[2].weight[d];
            g[2] += v * p[0].weight[a] * p[1].weight[b] * p[2].slope[d];
          });
        }
        for (int k = 0; k < e.rank; ++k)
          args.output<T>(0)[i * e.rank + k] = static_cast<T>(g[2 - k]);
      }
    });
  });
  return {};
}

void grad_of_sample(GradCtx& c) {
  const GridSampleAttrs a = c.attrs<GridSampleAttrs>();
  if (c.needs(0)) {
    const auto spatial = c.shape(0).dims().subspan(2);
    c.set(0, c.b.emit(op::grid_sample_input_grad, {c.out_grad(0), c.in(1)},
                      GridSampleGradAttrs{{spatial.begin(), spatial.end()}, a}));
  }
  if (c.needs(1))
    c.set(1, c.b.emit(op::grid_sample_grid_grad, {c.out_grad(0), c.in(0), c.in(1)}, a));
}

double sample_flops(const NodeTypes& t) { return 16.0 * static_cast<double>(t.out[0]->numel()); }

// ---- affine_grid(theta, size)

Result<Shape> size_of_grid(const InferCtx& c) {
  HONE_ASSIGN(const std::vector<int64_t> size, need_constant_ints(c, 1));
  auto shape = Shape::make(size);
  if (!shape.ok()) return shape.status().with_context(c.who());
  if (shape->rank() != 4 && shape->rank() != 5)
    return c.error("the size is {}, expected (N, C, spatial..) with 2 or 3 spatial axes", *shape);
  constexpr int64_t kMostPlaces = int64_t{1} << 26;
  int64_t places = 1;
  for (int k = 2; k < shape->rank(); ++k) {
    if ((*shape)[k] < 1 || (*shape)[k] > kMostPlaces / places)
      return c.error("a grid for {} is empty or too large", *shape);
    places *= (*shape)[k];
  }
  return shape;
}

// Positions along one axis, from -1 to 1.
std::vector<double> positions(int64_t n, bool align_corners) {
  std::vector<double> v;
  const double extent = static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double k = static_cast<double>(i);
    v.push_back(!align_corners ? (2 * k + 1) / extent - 1 : n > 1 ? 2 * k / (extent - 1) - 1 : -1);
  }
  return v;
}

// Rows (x, y, 1) or (x, y, z, 1) of all places.
Value base_grid(Builder& b, const Shape& size, bool align_corners, DType t) {
  const int rank = size.rank() - 2;
  std::vector<std::vector<double>> axes;
  for (int k = 0; k < rank; ++k) axes.push_back(positions(size[2 + k], align_corners));
  const int64_t places = size.product(2, size.rank());
  std::vector<double> rows;
  for (int64_t i = 0; i < places; ++i) {
    int64_t rest = i;
    for (int k = rank - 1; k >= 0; --k) {  // the innermost axis is x, which comes first
      const std::vector<double>& axis = axes[static_cast<size_t>(k)];
      rows.push_back(axis[static_cast<size_t>(rest % size[2 + k])]);
      rest /= size[2 + k];
    }
    rows.push_back(1);
  }
  auto flat = TensorData::vector_of(std::span<const double>(rows));
  auto table = flat.ok() ? flat->reshaped({places, rank + 1}) : std::move(flat);
  auto cast_table = table.ok() ? cast(*table, t) : std::move(table);
  if (cast_table.ok()) return b.constant(std::move(*cast_table));
  b.fail(cast_table.status());
  return {};
}

}  // namespace

// grid_sample(x, grid): x at places that the grid gives in [-1, 1] per axis, innermost axis first.
// (N, C, in..), (N, out.., axes) -> (N, C, out..)
const OpDef op::grid_sample = {
    .name = "grid_sample",
    .attrs = &kAttrSchema<GridSampleAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_TRY(need_same_dtype(c, 0, 1));
      HONE_TRY(need_grid(c, 1, c.attrs<GridSampleAttrs>(), c.shape(0)));
      c.out(c.dtype(0), sampled(c.shape(0), c.shape(1)));
      return {};
    },
    .diff = Diff::rule,
    .grad = grad_of_sample,
    .kernel = sample_kernel,
    .flops = sample_flops,
};

// grid_sample_input_grad(gy, grid): the adjoint of grid_sample in x.   (N, C, out..), (N, out..,
// axes) -> (N, C, in..)
const OpDef op::grid_sample_input_grad = {
    .name = "grid_sample_input_grad",
    .attrs = &kAttrSchema<GridSampleGradAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_input_grad,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const GridSampleAttrs a = c.attrs<GridSampleGradAttrs>().sample;
          const Value gx = c.out_grad(0);
          if (c.needs(0)) c.set(0, c.b.emit(op::grid_sample, {gx, c.in(1)}, a));
          if (c.needs(1)) c.set(1, c.b.emit(op::grid_sample_grid_grad, {c.in(0), gx, c.in(1)}, a));
        },
    .kernel = input_grad_kernel,
    .scratch = [](const NodeTypes& t) -> int64_t {
      return t.out[0]->numel() * static_cast<int64_t>(sizeof(double));
    },
    .flops = [](const NodeTypes& t) { return 16.0 * static_cast<double>(t.in[0]->numel()); },
};

// grid_sample_grid_grad(gy, x, grid): the gradient of the grid.   (N, C, out..), (N, C, in..), (N,
// out.., axes) -> (N, out.., axes)
const OpDef op::grid_sample_grid_grad = {
    .name = "grid_sample_grid_grad",
    .attrs = &kAttrSchema<GridSampleAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = infer_grid_grad,
    .diff = Diff::missing,
    .kernel = grid_grad_kernel,
    .flops = [](const NodeTypes& t) { return 32.0 * static_cast<double>(t.in[0]->numel()); },
};

// affine_grid(theta, size): the grid of an affine map, for grid_sample (ONNX AffineGrid).   (N, 2,
// 3) or (N, 3, 4), [N, C, out..] -> (N, out.., 2 or 3)
const OpDef op::affine_grid = {
    .name = "affine_grid",
    .attrs = &kAttrSchema<AffineGridAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_ASSIGN(const Shape size, size_of_grid(c));
      const int64_t rank = size.rank() - 2;
      if (c.shape(0) != Shape{size[0], rank, rank + 1})
        return c.error("theta is {}, expected [{}, {}, {}]", c.shape(0), size[0], rank, rank + 1);
      Shape y = {size[0]};
      for (int k = 2; k < size.rank(); ++k) y.push_back(size[k]);
      y.push_back(rank);
      c.out(c.dtype(0), y);
      return {};
    },
    .decompose =
        [](DecomposeCtx& c) {
          const std::vector<int64_t> given = to_ints(*c.constant(1));
          const Shape size{std::span<const int64_t>(given)};
          const Value base =
              base_grid(c.b, size, c.attrs<AffineGridAttrs>().align_corners, c.type(0).dtype);
          Shape y = {size[0]};
          for (int k = 2; k < size.rank(); ++k) y.push_back(size[k]);
          y.push_back(size.rank() - 2);
          c.set(0, ops::reshape(ops::matmul(base, c.in(0), {false, true}), y));
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
