// SPDX-License-Identifier: Apache-2.0
// Determinants and inverses of square matrices, by elimination with partial pivoting.
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/special_ops.hpp"

namespace hone {

namespace {

Status need_square(const InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank_at_least(c, 0, 2));
  const Shape& s = c.shape(0);
  if (s[s.rank() - 1] != s[s.rank() - 2]) return c.error("{} is no square matrix", c.in(0));
  return {};
}

int64_t extent(const Shape& s) { return s[s.rank() - 1]; }

// Eliminates below (and, to invert, above) the diagonal of n rows of `width` elements; returns the
// determinant.
double eliminate(double* a, int64_t n, int64_t width, bool above) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(a[i * width + k]) > std::fabs(a[pivot * width + k])) pivot = i;
    if (pivot != k) {
      std::swap_ranges(a + k * width, a + (k + 1) * width, a + pivot * width);
      det = -det;
    }
    const double p = a[k * width + k];
    det *= p;
    if (p == 0 && !above) return det;
    for (int64_t i = above ? 0 : k + 1; i < n; ++i) {
      if (i == k) continue;
      const double f = a[i * width + k] / p;
      for (int64_t j = k; j < width; ++j) a[i * width + j] -= f * a[k * width + j];
    }
  }
  return det;
}

template <class T>
void load(const T* x, double* a, int64_t n, int64_t width) {
  using S = accumulator_t<T>;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      a[i * width + j] = static_cast<double>(static_cast<S>(x[i * n + j]));
}

Status det_kernel(const KernelArgs& args) {
  const int64_t n = extent(args.shape(0)), count = args.out[0].numel();
  double* a = reinterpret_cast<double*>(args.scratch);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for (int64_t m = 0; m < count; ++m) {
      load(args.input<T>(0) + m * n * n, a, n, n);
      args.output<T>(0)[m] = static_cast<T>(eliminate(a, n, n, false));
    }
  });
  return {};
}

// [A | I] becomes [D | D A^-1] with D diagonal. A singular matrix gives infinities or NaN.
Status inverse_kernel(const KernelArgs& args) {
  const int64_t n = extent(args.shape(0));
  const int64_t count = n > 0 ? args.out[0].numel() / (n * n) : 0;
  double* a = reinterpret_cast<double*>(args.scratch);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for (int64_t m = 0; m < count; ++m) {
      std::fill_n(a, 2 * n * n, 0.0);
      load(args.input<T>(0) + m * n * n, a, n, 2 * n);
      for (int64_t i = 0; i < n; ++i) a[i * 2 * n + n + i] = 1;
      eliminate(a, n, 2 * n, true);
      T* y = args.output<T>(0) + m * n * n;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          y[i * n + j] = static_cast<T>(a[i * 2 * n + n + j] / a[i * 2 * n + i]);
    }
  });
  return {};
}

int64_t scratch_of(const NodeTypes& t, int64_t matrices) {
  const int64_t n = extent(t.in[0]->shape);
  return matrices * n * n * static_cast<int64_t>(sizeof(double));
}

double elimination_flops(const NodeTypes& t) {
  return static_cast<double>(t.in[0]->numel()) * static_cast<double>(extent(t.in[0]->shape));
}

}  // namespace

// det(a): the determinant of the last two axes.   (.., N, N) -> (..)
// d det / d a = det a^-T (Jacobi): of a singular matrix no gradient is known.
const OpDef op::det = {
    .name = "det",
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need_square(c));
      const Shape& s = c.shape(0);
      c.out(c.dtype(0), Shape(s.dims().first(static_cast<size_t>(s.rank() - 2))));
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          Shape scalar = c.out(0).shape();
          scalar.push_back(1);
          scalar.push_back(1);
          const Value inverse = c.b.emit(op::matrix_inverse, {c.in(0)});
          const Value scale = ops::reshape(c.out_grad(0) * c.out(0), scalar);
          c.set(0, scale * ops::swap_last_two(inverse));
        },
    .kernel = det_kernel,
    .scratch = [](const NodeTypes& t) { return scratch_of(t, 1); },
    .flops = elimination_flops,
};

// matrix_inverse(a): the inverse of the last two axes.   (.., N, N) -> same
const OpDef op::matrix_inverse = {
    .name = "matrix_inverse",
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need_square(c));
      c.out(c.in(0));
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Value y = c.out(0);
          c.set(0, -ops::matmul(ops::matmul(y, c.out_grad(0), {true, false}), y, {false, true}));
        },
    .kernel = inverse_kernel,
    .scratch = [](const NodeTypes& t) { return scratch_of(t, 2); },
    .flops = elimination_flops,
};

}  // namespace hone
