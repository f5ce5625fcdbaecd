// SPDX-License-Identifier: Apache-2.0
// Direct convolution: rows along the width are the vectors, summed on the stack in a type that is
// wide enough. Sums run in an order that depends on the shapes alone, whatever the number of
// threads.
#include "core/ops/conv_kernels.hpp"

#include <algorithm>

#include "hone/thread_pool.hpp"
#include "hone/window.hpp"

namespace hone {

namespace {

struct Geometry {
  int64_t batch, groups;
  int64_t in_channels, out_channels;  // of one group
  WindowAxis d, h, w;

  int64_t in_plane() const { return d.in * h.in * w.in; }
  int64_t out_plane() const { return d.out * h.out * w.out; }
  int64_t taps() const { return d.kernel * h.kernel * w.kernel; }
};

// A pointwise convolution does not look beside itself: its planes are single rows.
bool pointwise(const WindowAxis& a) {
  return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0;
}

Result<Geometry> geometry(const ConvAttrs& attrs, const Shape& x, const Shape& w) {
  HONE_ASSIGN(const Window window, conv_window(attrs, spatial_of(x), spatial_of(w)));
  Geometry g{x[0],           attrs.groups,    w[1],          w[0] / attrs.groups,
             window.depth(), window.height(), window.width()};
  if (pointwise(g.d) && pointwise(g.h) && pointwise(g.w)) {
    g.w.in = g.w.out = g.in_plane();
    g.d = g.h = WindowAxis();
  }
  return g;
}

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

struct Range {
  int64_t begin, end;
};

// The windows of [0, a.out) whose tap lies on an element of [first, last).
Range windows_on(const WindowAxis& a, int64_t tap, int64_t first, int64_t last) {
  const int64_t offset = tap * a.dilation - a.pad_begin;
  return {std::max<int64_t>(0, ceil_div(first - offset, a.stride)),
          std::min(a.out, ceil_div(last - offset, a.stride))};
}

// The window whose tap lies on element i, or -1.
int64_t window_at(const WindowAxis& a, int64_t tap, int64_t i) {
  const int64_t at = i + a.pad_begin - tap * a.dilation;
  return at >= 0 && at % a.stride == 0 && at / a.stride < a.out ? at / a.stride : -1;
}

int64_t element_at(const WindowAxis& a, int64_t tap, int64_t window) {
  const int64_t at = a.start(window) + tap * a.dilation;
  return at >= 0 && at < a.in ? at : -1;
}

constexpr int64_t kRow = 128;  // elements of a row summed at once

// Threads take several planes at once when planes are cheap.
int64_t grain(double operations) { return 1 + static_cast<int64_t>(32768 / (operations + 1)); }

// One row segment [w0, w1) of the output, all channels of the group and taps added up.
template <class T>
void output_row(const Geometry& g, const T* x, const T* weight, accumulator_t<T> bias, int64_t od,
                int64_t oh, Range row, T* y) {
  using S = accumulator_t<T>;
  S sum[kRow];
  std::fill_n(sum, row.end - row.begin, bias);
  for (int64_t c = 0; c < g.in_channels; ++c, x += g.in_plane())
    for (int64_t kd = 0; kd < g.d.kernel; ++kd)
      for (int64_t kh = 0; kh < g.h.kernel; ++kh, weight += g.w.kernel) {
        const int64_t id = element_at(g.d, kd, od), ih = element_at(g.h, kh, oh);
        if (id < 0 || ih < 0) continue;
        const T* line = x + (id * g.h.in + ih) * g.w.in;
        for (int64_t kw = 0; kw < g.w.kernel; ++kw) {
          Range valid = windows_on(g.w, kw, 0, g.w.in);
          valid = {std::max(valid.begin, row.begin), std::min(valid.end, row.end)};
          const S factor = static_cast<S>(weight[kw]);
          const int64_t n = valid.end - valid.begin, stride = g.w.stride;
          if (n <= 0) continue;
          const T* from = line + g.w.start(valid.begin) + kw * g.w.dilation;
          S* to = sum + (valid.begin - row.begin);
          if (stride == 1)
            for (int64_t i = 0; i < n; ++i) to[i] += factor * static_cast<S>(from[i]);
          else
            for (int64_t i = 0; i < n; ++i) to[i] += factor * static_cast<S>(from[i * stride]);
        }
      }
  for (int64_t i = row.begin; i < row.end; ++i) y[i] = static_cast<T>(sum[i - row.begin]);
}

template <class T>
void forward(const KernelArgs& args, const Geometry& g) {
  using S = accumulator_t<T>;
  const T* bias = args.has(2) ? args.input<T>(2) : nullptr;
  const int64_t channels = g.groups * g.out_channels, weights = g.in_channels * g.taps();
  const double work = static_cast<double>(g.out_plane()) * static_cast<double>(weights);
  args.pool.parallel_for(g.batch * channels, grain(work), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / channels, m = i % channels, group = m / g.out_channels;
      const T* x = args.input<T>(0) + (n * g.groups + group) * g.in_channels * g.in_plane();
      const S b = bias ? static_cast<S>(bias[m]) : S(0);
      T* y = args.output<T>(0) + i * g.out_plane();
      for (int64_t od = 0; od < g.d.out; ++od)
        for (int64_t oh = 0; oh < g.h.out; ++oh, y += g.w.out)
          for (int64_t w0 = 0; w0 < g.w.out; w0 += kRow)
            output_row<T>(g, x, args.input<T>(1) + m * weights, b, od, oh,
                          {w0, std::min(w0 + kRow, g.w.out)}, y);
    }
  });
}

// One row segment of the input's gradient: all output channels of the group and taps added up.
template <class T>
void input_row(const Geometry& g, const T* gy, const T* weight, int64_t id, int64_t ih, Range row,
               T* gx) {
  using S = accumulator_t<T>;
  S sum[kRow] = {};
  for (int64_t m = 0; m < g.out_channels;
       ++m, gy += g.out_plane(), weight += g.in_channels * g.taps())
    for (int64_t kd = 0; kd < g.d.kernel; ++kd)
      for (int64_t kh = 0; kh < g.h.kernel; ++kh) {
        const int64_t od = window_at(g.d, kd, id), oh = window_at(g.h, kh, ih);
        if (od < 0 || oh < 0) continue;
        const T* line = gy + (od * g.h.out + oh) * g.w.out;
        for (int64_t kw = 0; kw < g.w.kernel; ++kw) {
          const Range valid = windows_on(g.w, kw, row.begin, row.end);
          const S factor = static_cast<S>(weight[(kd * g.h.kernel + kh) * g.w.kernel + kw]);
          const int64_t n = valid.end - valid.begin, stride = g.w.stride;
          if (n <= 0) continue;
          const T* from = line + valid.begin;
          S* to = sum + (g.w.start(valid.begin) + kw * g.w.dilation - row.begin);
          if (stride == 1)
            for (int64_t i = 0; i < n; ++i) to[i] += factor * static_cast<S>(from[i]);
          else
            for (int64_t i = 0; i < n; ++i) to[i * stride] += factor * static_cast<S>(from[i]);
        }
      }
  for (int64_t i = row.begin; i < row.end; ++i) gx[i] = static_cast<T>(sum[i - row.begin]);
}

template <class T>
void input_grad(const KernelArgs& args, const Geometry& g) {
  const int64_t channels = g.groups * g.in_channels;
  const double work = static_cast<double>(g.out_plane()) * static_cast<double>(g.out_channels) *
                      static_cast<double>(g.taps());
  args.pool.parallel_for(g.batch * channels, grain(work), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / channels, group = i % channels / g.in_channels, c = i % g.in_channels;
      const T* gy = args.input<T>(0) + (n * g.groups + group) * g.out_channels * g.out_plane();
      const T* weight = args.input<T>(1) + (group * g.out_channels * g.in_channels + c) * g.taps();
      T* gx = args.output<T>(0) + i * g.in_plane();
      for (int64_t id = 0; id < g.d.in; ++id)
        for (int64_t ih = 0; ih < g.h.in; ++ih, gx += g.w.in)
          for (int64_t w0 = 0; w0 < g.w.in; w0 += kRow)
            input_row<T>(g, gy, weight, id, ih, {w0, std::min(w0 + kRow, g.w.in)}, gx);
    }
  });
}

// sum of a[i] * b[i * stride] in eight interleaved sums, which a compiler may keep in one vector.
template <class T>
double dot(const T* a, const T* b, int64_t stride, int64_t n) {
  using S = accumulator_t<T>;
  constexpr int64_t kLanes = 8;
  S lanes[kLanes] = {};
  int64_t i = 0;
  if (stride == 1)
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t k = 0; k < kLanes; ++k)
        lanes[k] += static_cast<S>(a[i + k]) * static_cast<S>(b[i + k]);
  else
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t k = 0; k < kLanes; ++k)
        lanes[k] += static_cast<S>(a[i + k]) * static_cast<S>(b[(i + k) * stride]);
  for (int64_t k = 0; i < n; ++i, ++k)
    lanes[k] += static_cast<S>(a[i]) * static_cast<S>(b[i * stride]);
  double sum = 0;
  for (S lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

// One weight's gradient. Rows are summed in T's accumulator, the many rows of a batch in double.
template <class T>
double weight_sum(const Geometry& g, const T* x, const T* gy, int64_t kd, int64_t kh, int64_t kw) {
  const Range w = windows_on(g.w, kw, 0, g.w.in);
  if (w.end <= w.begin) return 0;
  double sum = 0;
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t od = 0; od < g.d.out; ++od)
      for (int64_t oh = 0; oh < g.h.out; ++oh) {
        const int64_t id = element_at(g.d, kd, od), ih = element_at(g.h, kh, oh);
        if (id < 0 || ih < 0) continue;
        const T* line = x + (id * g.h.in + ih) * g.w.in + g.w.start(w.begin) + kw * g.w.dilation;
        sum +=
            dot<T>(gy + (od * g.h.out + oh) * g.w.out + w.begin, line, g.w.stride, w.end - w.begin);
      }
    x += g.groups * g.in_channels * g.in_plane();
    gy += g.groups * g.out_channels * g.out_plane();
  }
  return sum;
}

template <class T>
void weight_grad(const KernelArgs& args, const Geometry& g) {
  const double work = static_cast<double>(g.batch) * static_cast<double>(g.out_plane()) *
                      static_cast<double>(g.taps());
  args.pool.parallel_for(
      g.groups * g.out_channels * g.in_channels, grain(work), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t m = i / g.in_channels,
                        c = m / g.out_channels * g.in_channels + i % g.in_channels;
          const T* x = args.input<T>(0) + c * g.in_plane();
          const T* gy = args.input<T>(1) + m * g.out_plane();
          T* gw = args.output<T>(0) + i * g.taps();
          for (int64_t kd = 0; kd < g.d.kernel; ++kd)
            for (int64_t kh = 0; kh < g.h.kernel; ++kh)
              for (int64_t kw = 0; kw < g.w.kernel; ++kw)
                *gw++ = static_cast<T>(weight_sum<T>(g, x, gy, kd, kh, kw));
        }
      });
}

}  // namespace

Status conv_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Geometry g, geometry(args.attrs.as<ConvAttrs>(), args.shape(0), args.shape(1)));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() { forward<T>(args, g); });
  return {};
}

Status conv_input_grad_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Geometry g,
              geometry(args.attrs.as<ConvGradAttrs>().conv, args.out[0].type.shape, args.shape(1)));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() { input_grad<T>(args, g); });
  return {};
}

Status conv_weight_grad_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Geometry g,
              geometry(args.attrs.as<ConvGradAttrs>().conv, args.shape(0), args.out[0].type.shape));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() { weight_grad<T>(args, g); });
  return {};
}

}  // namespace hone
