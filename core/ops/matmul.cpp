// SPDX-License-Identifier: Apache-2.0
// Matrix products: matmul (batched, broadcasting) and gemm.
#include <algorithm>
#include <cmath>

#include "hone/ops.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

namespace {

// The extents of one product: (batch.., rows, inner) times (batch.., inner, cols).
struct Product {
  int64_t rows, inner, cols;
  Shape batch;  // broadcast
};

Shape batch_of(const Shape& s) { return Shape(s.dims().first(static_cast<size_t>(s.rank() - 2))); }

int64_t extent(const Shape& s, int from_end) { return s[s.rank() - from_end]; }

Product product_of(const Shape& a, const Shape& b, bool trans_a, bool trans_b, Shape batch) {
  return {extent(a, trans_a ? 1 : 2), extent(a, trans_a ? 2 : 1), extent(b, trans_b ? 2 : 1),
          batch};
}

Status check_operands(const InferCtx& c) {
  const DType t = c.dtype(0);
  if (!is_float(t) && t != DType::i32 && t != DType::i64)
    return c.error("takes floating-point, i32 or i64 matrices, got {}", t);
  if (c.dtype(1) != t) return c.error("operands have one dtype, got {} and {}", t, c.dtype(1));
  return {};
}

Status check_inner(const InferCtx& c, bool trans_a, bool trans_b) {
  const int64_t left = extent(c.shape(0), trans_a ? 2 : 1);
  const int64_t right = extent(c.shape(1), trans_b ? 1 : 2);
  if (left == right) return {};
  return c.error("the left operand has {} columns, the right one {} rows ({}{} times {}{})", left,
                 right, c.in(0), trans_a ? " transposed" : "", c.in(1),
                 trans_b ? " transposed" : "");
}

// One tile of the result is summed on the stack, over panels of the right operand that are packed
// there too: rows of a panel are contiguous whatever the transposition, and half floats are widened
// once for kTileRows uses. Each panel has its own partial sum, which keeps the rounding error of
// long sums small. The order of additions depends on the shapes alone.
constexpr int64_t kTileRows = 32, kTileCols = 64, kPanel = 64;

// Integers wrap around, as two's complement does.
template <class T>
using sum_t = std::conditional_t<is_float_type<T>, accumulator_t<T>, uint64_t>;

template <class T>
struct Matrix {
  const T* data;
  int64_t row_stride, col_stride;
  sum_t<T> at(int64_t i, int64_t j) const {
    return static_cast<sum_t<T>>(data[i * row_stride + j * col_stride]);
  }
};

template <class T>
void tile(const Matrix<T>& a, const Matrix<T>& b, T* y, const Product& p, int64_t row,
          int64_t col) {
  using S = sum_t<T>;
  const int64_t rows = std::min(kTileRows, p.rows - row), cols = std::min(kTileCols, p.cols - col);
  S total[kTileRows][kTileCols] = {};
  S panel[kPanel][kTileCols];
  for (int64_t k0 = 0; k0 < p.inner; k0 += kPanel) {
    const int64_t depth = std::min(kPanel, p.inner - k0);
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t j = 0; j < cols; ++j) panel[k][j] = b.at(k0 + k, col + j);
    for (int64_t i = 0; i < rows; ++i) {
      S part[kTileCols] = {};
      for (int64_t k = 0; k < depth; ++k) {
        const S left = a.at(row + i, k0 + k);
        for (int64_t j = 0; j < cols; ++j) part[j] += left * panel[k][j];
      }
      for (int64_t j = 0; j < cols; ++j) total[i][j] += part[j];
    }
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      y[(row + i) * p.cols + col + j] = static_cast<T>(total[i][j]);
}

// Offsets in matrices of the operand for batch `index` of the broadcast batch.
int64_t batch_offset(const Shape& batch, const Shape& own, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = batch.rank() - 1, j = own.rank() - 1; i >= 0; --i, --j) {
    const int64_t at = index % batch[i];
    index /= batch[i];
    if (j < 0) continue;
    if (own[j] != 1) offset += at * stride;
    stride *= own[j];
  }
  return offset;
}

template <class T>
void multiply(const KernelArgs& args) {
  const MatmulAttrs& attrs = args.attrs.as<MatmulAttrs>();
  const Shape &a = args.shape(0), &b = args.shape(1), &y = args.out[0].type.shape;
  const Product p = product_of(a, b, attrs.trans_a, attrs.trans_b, batch_of(y));
  const Shape batch_a = batch_of(a), batch_b = batch_of(b);
  const int64_t row_tiles = (p.rows + kTileRows - 1) / kTileRows,
                col_tiles = (p.cols + kTileCols - 1) / kTileCols;
  const int64_t tiles = row_tiles * col_tiles;
  args.pool.parallel_for(p.batch.numel() * tiles, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / tiles, row = i % tiles / col_tiles * kTileRows,
                    col = i % col_tiles * kTileCols;
      const T* left = args.input<T>(0) + batch_offset(p.batch, batch_a, batch) * p.rows * p.inner;
      const T* right = args.input<T>(1) + batch_offset(p.batch, batch_b, batch) * p.inner * p.cols;
      const int64_t width_a = extent(a, 1), width_b = extent(b, 1);
      tile<T>({left, attrs.trans_a ? 1 : width_a, attrs.trans_a ? width_a : 1},
              {right, attrs.trans_b ? 1 : width_b, attrs.trans_b ? width_b : 1},
              args.output<T>(0) + batch * p.rows * p.cols, p, row, col);
    }
  });
}

// The rows of all batches as one matrix.
Value as_matrix(Value x) {
  const Shape& s = x.shape();
  return ops::reshape(x, {s.product(0, s.rank() - 1), extent(s, 1)});
}

}  // namespace

// matmul(a, b): the product of the last two axes; the axes before them broadcast.  (.., M, K), (..,
// K, N) -> (.., M, N)
const OpDef op::matmul = {
    .name = "matmul",
    .attrs = &kAttrSchema<MatmulAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      const MatmulAttrs& attrs = c.attrs<MatmulAttrs>();
      HONE_TRY(check_operands(c));
      for (int i = 0; i < 2; ++i)
        if (c.shape(i).rank() < 2)
          return c.error("operand {} is {}; a matrix has at least two axes", i, c.in(i));
      HONE_TRY(check_inner(c, attrs.trans_a, attrs.trans_b));
      auto batch = broadcast(batch_of(c.shape(0)), batch_of(c.shape(1)));
      if (!batch.ok())
        return c.error("the batch axes of {} and {} do not broadcast", c.in(0), c.in(1));
      const Product p = product_of(c.shape(0), c.shape(1), attrs.trans_a, attrs.trans_b, *batch);
      Shape y = *batch;
      y.push_back(p.rows);
      y.push_back(p.cols);
      c.out(c.dtype(0), y);
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const auto [trans_a, trans_b] = c.attrs<MatmulAttrs>();
          const Value a = c.in(0), b = c.in(1), gy = c.out_grad(0);
          if (c.needs(0))
            c.set(0, trans_a ? ops::matmul(b, gy, {trans_b, true})
                             : ops::matmul(gy, b, {false, !trans_b}));
          if (!c.needs(1)) return;
          // One matrix for all batches, as in a linear layer: its gradient is one product over all
          // rows, not a sum of products.
          const bool shared = b.shape().rank() == 2 && a.shape().rank() > 2 && !trans_a;
          const Value left = shared ? as_matrix(a) : a, g = shared ? as_matrix(gy) : gy;
          c.set(1, trans_b ? ops::matmul(g, left, {true, trans_a})
                           : ops::matmul(left, g, {!trans_a, false}));
        },
    .kernel = [](const KernelArgs& args) -> Status {
      switch (args.in[0].type.dtype) {
        case DType::i32:
          multiply<int32_t>(args);
          break;
        case DType::i64:
          multiply<int64_t>(args);
          break;
        default:
          dispatch_float(args.in[0].type.dtype, [&]<class T>() { multiply<T>(args); });
      }
      return {};
    },
    .flops =
        [](const NodeTypes& n) {
          const int64_t inner = extent(n.in[0]->shape, n.attrs.as<MatmulAttrs>().trans_a ? 2 : 1);
          return 2.0 * static_cast<double>(n.out[0]->numel()) * static_cast<double>(inner);
        },
    .broadcasts = true,
};

// gemm(a, b, c?): alpha * A B + beta * C with C broadcast to the product.  (M, K), (K, N), (M, N)
// -> (M, N)
const OpDef op::gemm = {
    .name = "gemm",
    .attrs = &kAttrSchema<GemmAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = [](InferCtx& c) -> Status {
      const GemmAttrs& attrs = c.attrs<GemmAttrs>();
      HONE_TRY(check_operands(c));
      for (int i = 0; i < 2; ++i)
        if (c.shape(i).rank() != 2) return c.error("operand {} is {}, not a matrix", i, c.in(i));
      for (double factor : {attrs.alpha, attrs.beta})
        if (!is_float(c.dtype(0)) && factor != std::trunc(factor))
          return c.error("{} matrices cannot be scaled by {}", c.dtype(0), factor);
      HONE_TRY(check_inner(c, attrs.trans_a, attrs.trans_b));
      const Product p = product_of(c.shape(0), c.shape(1), attrs.trans_a, attrs.trans_b, {});
      const Shape y = {p.rows, p.cols};
      if (c.has(2)) {
        if (c.dtype(2) != c.dtype(0))
          return c.error("operands have one dtype, got {} and {}", c.dtype(0), c.dtype(2));
        auto both = broadcast(c.shape(2), y);
        if (!both.ok() || *both != y)
          return c.error("the addend {} does not broadcast to the product {}", c.in(2), y);
      }
      c.out(c.dtype(0), y);
      return {};
    },
    .decompose =
        [](DecomposeCtx& c) {
          const GemmAttrs& attrs = c.attrs<GemmAttrs>();
          Value y = ops::matmul(c.in(0), c.in(1), {attrs.trans_a, attrs.trans_b});
          if (attrs.alpha != 1) y = y * attrs.alpha;
          if (c.has(2) && attrs.beta != 0)
            y = y + (attrs.beta == 1 ? c.in(2) : c.in(2) * attrs.beta);
          c.set(0, y);
        },
    .diff = Diff::by_decomposition,
    .flops =
        [](const NodeTypes& n) {
          const int64_t inner = extent(n.in[0]->shape, n.attrs.as<GemmAttrs>().trans_a ? 2 : 1);
          return 2.0 * static_cast<double>(n.out[0]->numel()) * static_cast<double>(inner);
        },
};

}  // namespace hone
