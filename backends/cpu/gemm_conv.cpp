// SPDX-License-Identifier: Apache-2.0
// Convolution as matrix products. With x unrolled to columns X (C kernel, out) of one image and
// group:
//   y = W X,   gx = fold(W^T gy),   gw = sum over images of gy X^T.
// X is never stored: its panels are gathered from x when the product packs them. The adjoint's
// columns are, since folding adds.
#if HONE_HAVE_HIGHWAY

#include <algorithm>

#include "backends/cpu/gemm_ops.hpp"
#include "hone/window.hpp"

namespace hone::cpu {

namespace {

struct Geometry {
  Window w;
  int64_t images = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;                       // of one group
  int64_t depth() const { return in_channels * w.kernel_size(); }  // rows of X
  bool plain() const {                                             // X is x itself
    const auto trivial = [](const WindowAxis& a) {
      return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0;
    };
    return trivial(w.height()) && trivial(w.width());
  }
};

// Gathers panels of X, or of its transpose, from one image of one group (in_channels, height,
// width).
class Columns {
 public:
  Columns(const Geometry& g, const float* x) : g_(g), x_(x) {}

  // Rows k of X by columns n (output positions).
  void pack(int64_t k0, int64_t kc, int64_t n0, int64_t width, int64_t panel, float* out) const {
    for (int64_t k = k0; k < k0 + kc; ++k, out += panel) {
      row(k, n0, width, out);
      std::fill(out + width, out + panel, 0.0f);
    }
  }
  // Rows n (output positions) by columns k: the transpose of X.
  void pack_transposed(int64_t n0, int64_t nc, int64_t k0, int64_t width, int64_t panel,
                       float* out) const {
    constexpr int64_t kRun = 128;
    float line[kRun];
    for (int64_t j = 0; j < panel; ++j) {
      for (int64_t at = 0; at < nc; at += kRun) {
        const int64_t run = std::min(kRun, nc - at);
        if (j < width)
          row(k0 + j, n0 + at, run, line);
        else
          std::fill_n(line, run, 0.0f);
        for (int64_t i = 0; i < run; ++i) out[(at + i) * panel + j] = line[i];
      }
    }
  }

 private:
  // `count` elements of row k from output position n on.
  void row(int64_t k, int64_t n, int64_t count, float* out) const {
    const WindowAxis &h = g_.w.height(), &w = g_.w.width();
    const int64_t taps = h.kernel * w.kernel;
    const float* plane = x_ + k / taps * h.in * w.in;
    const int64_t dy = k % taps / w.kernel * h.dilation - h.pad_begin,
                  dx = k % w.kernel * w.dilation - w.pad_begin;
    int64_t oy = n / w.out, ox = n % w.out;
    while (count > 0) {
      const int64_t run = std::min(count, w.out - ox), y = oy * h.stride + dy;
      if (y < 0 || y >= h.in)
        std::fill_n(out, run, 0.0f);
      else
        line(plane + y * w.in, ox, run, dx, out);
      out += run;
      count -= run;
      ox = 0;
      ++oy;
    }
  }
  void line(const float* from, int64_t ox, int64_t run, int64_t dx, float* out) const {
    const WindowAxis& w = g_.w.width();
    if (w.stride == 1) {
      const int64_t x = ox + dx;
      const int64_t left = std::clamp<int64_t>(-x, 0, run),
                    right = std::clamp<int64_t>(w.in - x, left, run);
      std::fill_n(out, left, 0.0f);
      std::copy_n(from + x + left, right - left, out + left);
      std::fill(out + right, out + run, 0.0f);
      return;
    }
    for (int64_t i = 0; i < run; ++i) {
      const int64_t x = (ox + i) * w.stride + dx;
      out[i] = x < 0 || x >= w.in ? 0.0f : from[x];
    }
  }

  const Geometry& g_;
  const float* x_;
};

// Adds columns (C kernel, out) of channels [first, last) to gx; the channels are set to zero
// before.
void fold(const Geometry& g, const float* columns, float* gx, int64_t first, int64_t last) {
  const WindowAxis &h = g.w.height(), &w = g.w.width();
  for (int64_t c = first; c < last; ++c) {
    float* plane = gx + c * h.in * w.in;
    std::fill_n(plane, h.in * w.in, 0.0f);
    for (int64_t ky = 0; ky < h.kernel; ++ky)
      for (int64_t kx = 0; kx < w.kernel; ++kx) {
        const float* from = columns + ((c * h.kernel + ky) * w.kernel + kx) * h.out * w.out;
        const int64_t dx = kx * w.dilation - w.pad_begin;
        // Output columns whose tap lies inside.
        const int64_t lo = dx >= 0 ? 0 : (-dx + w.stride - 1) / w.stride;
        const int64_t hi = w.in - dx <= 0 ? 0 : std::min(w.out, (w.in - dx - 1) / w.stride + 1);
        for (int64_t oy = 0; oy < h.out; ++oy, from += w.out) {
          const int64_t y = oy * h.stride + ky * h.dilation - h.pad_begin;
          if (y < 0 || y >= h.in) continue;
          float* to = plane + y * w.in + dx;
          if (w.stride == 1)
            for (int64_t ox = lo; ox < hi; ++ox) to[ox] += from[ox];
          else
            for (int64_t ox = lo; ox < hi; ++ox) to[ox * w.stride] += from[ox];
        }
      }
  }
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const Geometry& g, int threads) : g_(g), threads_(threads) {}
  bool side_by_side() const { return g_.images * g_.groups >= 2 * threads_; }
  int64_t scratch_bytes() const {
    return one(side_by_side() ? 1 : threads_) * (side_by_side() ? threads_ : 1);
  }

  Status run(const StepArgs& args) override {
    const int64_t count = g_.images * g_.groups;
    if (!side_by_side()) {
      for (int64_t i = 0; i < count; ++i) image(args, i, args.scratch, args.pool);
      return {};
    }
    args.pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i)
        image(args, i, args.scratch + worker * one(1), serial_pool());
    });
    return {};
  }

 private:
  int64_t one(int threads) const {
    return gemm_scratch_bytes(g_.out_channels, g_.w.out_size(), g_.depth(), threads);
  }

  void image(const StepArgs& args, int64_t i, std::byte* scratch, ThreadPool& pool) const {
    const int64_t group = i % g_.groups, out = g_.w.out_size();
    const float* x = args.in<float>(0) + i * g_.in_channels * g_.w.in_size();
    const float* w = args.in<float>(1) + group * g_.out_channels * g_.depth();
    const bool has_bias = args.operands.size() == 4;
    float* y = args.out<float>(args.operands.size() - 1) + i * g_.out_channels * out;
    if (has_bias)
      for (int64_t m = 0; m < g_.out_channels; ++m)
        std::fill_n(y + m * out, out, args.in<float>(2)[group * g_.out_channels + m]);
    const Into into = has_bias ? Into::add : Into::assign;
    const Matrix a{w, g_.depth()};
    if (g_.plain())
      return gemm(g_.out_channels, out, g_.depth(), a, Matrix{x, out}, y, out, into, scratch, pool);
    const Columns columns(g_, x);
    gemm(
        g_.out_channels, out, g_.depth(), a,
        [&](int64_t k0, int64_t kc, int64_t n0, int64_t width, int64_t panel, float* to) {
          columns.pack(k0, kc, n0, width, panel, to);
        },
        y, out, into, scratch, pool);
  }

  Geometry g_;
  int threads_;
};

class ConvInputGradKernel final : public Kernel {
 public:
  ConvInputGradKernel(const Geometry& g, int threads) : g_(g), threads_(threads) {}
  bool side_by_side() const { return g_.images * g_.groups >= 2 * threads_; }
  int64_t scratch_bytes() const {
    return one(side_by_side() ? 1 : threads_) * (side_by_side() ? threads_ : 1);
  }

  Status run(const StepArgs& args) override {
    const int64_t count = g_.images * g_.groups;
    if (!side_by_side()) {
      for (int64_t i = 0; i < count; ++i) image(args, i, args.scratch, args.pool);
      return {};
    }
    args.pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i)
        image(args, i, args.scratch + worker * one(1), serial_pool());
    });
    return {};
  }

 private:
  int64_t columns_bytes() const {
    return g_.plain() ? 0 : (g_.depth() * g_.w.out_size() * 4 + 63) / 64 * 64;
  }
  int64_t one(int threads) const {
    return columns_bytes() +
           gemm_scratch_bytes(g_.depth(), g_.w.out_size(), g_.out_channels, threads);
  }

  void image(const StepArgs& args, int64_t i, std::byte* scratch, ThreadPool& pool) const {
    const int64_t group = i % g_.groups, out = g_.w.out_size();
    const float* gy = args.in<float>(0) + i * g_.out_channels * out;
    const Matrix wt{args.in<float>(1) + group * g_.out_channels * g_.depth(), g_.depth(), true};
    float* gx = args.out<float>(2) + i * g_.in_channels * g_.w.in_size();
    float* columns = g_.plain() ? gx : reinterpret_cast<float*>(scratch);
    gemm(g_.depth(), out, g_.out_channels, wt, Matrix{gy, out}, columns, out, Into::assign,
         scratch + columns_bytes(), pool);
    if (!g_.plain())
      pool.parallel_for(g_.in_channels, 1, [&](int64_t begin, int64_t end, int) {
        fold(g_, columns, gx, begin, end);
      });
  }

  Geometry g_;
  int threads_;
};

class ConvWeightGradKernel final : public Kernel {
 public:
  ConvWeightGradKernel(const Geometry& g, int threads) : g_(g), threads_(threads) {}
  int64_t scratch_bytes() const {
    return gemm_scratch_bytes(g_.out_channels, g_.depth(), g_.w.out_size(), threads_);
  }

  // Images one after the other, so that the sum over them has one order.
  Status run(const StepArgs& args) override {
    const int64_t out = g_.w.out_size();
    for (int64_t i = 0; i < g_.images * g_.groups; ++i) {
      const int64_t group = i % g_.groups;
      const float* x = args.in<float>(0) + i * g_.in_channels * g_.w.in_size();
      const Matrix gy{args.in<float>(1) + i * g_.out_channels * out, out};
      float* gw = args.out<float>(2) + group * g_.out_channels * g_.depth();
      const Into into = i < g_.groups ? Into::assign : Into::add;
      if (g_.plain()) {
        gemm(g_.out_channels, g_.depth(), out, gy, Matrix{x, out, true}, gw, g_.depth(), into,
             args.scratch, args.pool);
        continue;
      }
      const Columns columns(g_, x);
      gemm(
          g_.out_channels, g_.depth(), out, gy,
          [&](int64_t n0, int64_t nc, int64_t k0, int64_t width, int64_t panel, float* to) {
            columns.pack_transposed(n0, nc, k0, width, panel, to);
          },
          gw, g_.depth(), into, args.scratch, args.pool);
    }
    if (g_.images == 0)
      std::fill_n(args.out<float>(2), g_.groups * g_.out_channels * g_.depth(), 0.0f);
    return {};
  }

 private:
  Geometry g_;
  int threads_;
};

// x, w and y are the shapes of the convolution that the node belongs to.
Result<Geometry> geometry(const ConvAttrs& attrs, const Shape& x, const Shape& w) {
  Geometry g;
  HONE_ASSIGN(g.w, conv_window(attrs, spatial_of(x), spatial_of(w)));
  g.images = x[0];
  g.groups = attrs.groups;
  g.in_channels = x[1] / attrs.groups;
  g.out_channels = w[0] / attrs.groups;
  return g;
}

template <class K>
Status add_step(Lowering& to, NodeId id, const Geometry& g, std::string_view kind) {
  auto kernel = std::make_unique<K>(g, to.threads());
  const int64_t scratch = kernel->scratch_bytes();
  Step s = plain_step(to, id, std::move(kernel), kind);
  s.scratch_bytes = scratch;
  to.add(std::move(s));
  return {};
}

}  // namespace

bool accepts_conv(const Graph& g, const Node& n) {
  const int rank = g.type(n.inputs[0]).shape.rank();
  if (!all_of_dtype(g, n, DType::f32) || rank > 4) return false;
  const bool forward = n.op == &op::conv;
  const ConvAttrs& attrs = forward ? n.attrs.as<ConvAttrs>() : n.attrs.as<ConvGradAttrs>().conv;
  const Shape& w =
      n.op == &op::conv_weight_grad ? g.type(n.outputs[0]).shape : g.type(n.inputs[1]).shape;
  // A product with one row or one channel deep gains nothing over the direct loops.
  return attrs.groups == 1 || (w[1] >= 4 && w[0] / attrs.groups >= 4);
}

Status lower_conv(Lowering& to, NodeId id) {
  const Node& n = to.graph().node(id);
  HONE_ASSIGN(const Geometry g,
              geometry(n.attrs.as<ConvAttrs>(), to.graph().type(n.inputs[0]).shape,
                       to.graph().type(n.inputs[1]).shape));
  return add_step<ConvKernel>(to, id, g, "gemm.conv");
}

Status lower_conv_input_grad(Lowering& to, NodeId id) {
  const Node& n = to.graph().node(id);
  HONE_ASSIGN(const Geometry g,
              geometry(n.attrs.as<ConvGradAttrs>().conv, to.graph().type(n.outputs[0]).shape,
                       to.graph().type(n.inputs[1]).shape));
  return add_step<ConvInputGradKernel>(to, id, g, "gemm.conv_input_grad");
}

Status lower_conv_weight_grad(Lowering& to, NodeId id) {
  const Node& n = to.graph().node(id);
  HONE_ASSIGN(const Geometry g,
              geometry(n.attrs.as<ConvGradAttrs>().conv, to.graph().type(n.inputs[0]).shape,
                       to.graph().type(n.outputs[0]).shape));
  return add_step<ConvWeightGradKernel>(to, id, g, "gemm.conv_weight_grad");
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_HIGHWAY
