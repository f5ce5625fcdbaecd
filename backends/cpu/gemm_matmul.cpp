// SPDX-License-Identifier: Apache-2.0
// matmul on Hone's matrix product.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/gemm_ops.hpp"

namespace hone::cpu {

namespace {

// Offsets of each batch's matrices: batch axes broadcast.
struct Batches {
  std::vector<int64_t> a, b;  // elements
};

Batches batch_offsets(const Shape& a, const Shape& b, const Shape& out) {
  const int axes = out.rank() - 2;
  const auto strides = [&](const Shape& s) {
    std::vector<int64_t> result(static_cast<size_t>(axes), 0);
    int64_t step = s.product(s.rank() - 2, s.rank());
    for (int i = axes - 1, k = s.rank() - 3; i >= 0 && k >= 0; --i, --k) {
      if (s[k] != 1) result[static_cast<size_t>(i)] = step;
      step *= s[k];
    }
    return result;
  };
  const std::vector<int64_t> sa = strides(a), sb = strides(b);
  Batches r;
  const int64_t count = out.product(0, axes);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t oa = 0, ob = 0, rest = flat;
    for (int i = axes - 1; i >= 0; --i) {
      const int64_t at = rest % out[i];
      rest /= out[i];
      oa += at * sa[static_cast<size_t>(i)];
      ob += at * sb[static_cast<size_t>(i)];
    }
    r.a.push_back(oa);
    r.b.push_back(ob);
  }
  return r;
}

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const Shape& a, const Shape& b, const Shape& out, const MatmulAttrs& attrs,
               int threads)
      : attrs_(attrs), batches_(batch_offsets(a, b, out)), threads_(threads) {
    const int ra = a.rank(), rb = b.rank();
    m_ = out[out.rank() - 2];
    n_ = out[out.rank() - 1];
    k_ = attrs.trans_a ? a[ra - 2] : a[ra - 1];
    a_stride_ = a[ra - 1];
    b_stride_ = b[rb - 1];
    // One matrix B for all of a batch of A rows: a single tall product.
    const bool same_b = !batches_.b.empty() && batches_.b.front() == batches_.b.back() && rb == 2;
    if (same_b && !attrs.trans_a) {
      m_ *= static_cast<int64_t>(batches_.a.size());
      batches_.a.resize(1);
      batches_.b.resize(1);
    }
  }

  // Many small products run side by side, each with scratch of its own; few large ones run one by
  // one, split inside.
  bool side_by_side() const { return static_cast<int64_t>(batches_.a.size()) >= 2 * threads_; }
  int64_t scratch_bytes() const {
    const int64_t one = gemm_scratch_bytes(m_, n_, k_, side_by_side() ? 1 : threads_);
    return side_by_side() ? one * threads_ : one;
  }

  Status run(const StepArgs& args) override {
    const float* a = args.in<float>(0);
    const float* b = args.in<float>(1);
    float* c = args.out<float>(2);
    const auto one = [&](int64_t i, std::byte* scratch, ThreadPool& pool) {
      const size_t at = static_cast<size_t>(i);
      gemm(m_, n_, k_, Matrix{a + batches_.a[at], a_stride_, attrs_.trans_a},
           Matrix{b + batches_.b[at], b_stride_, attrs_.trans_b}, c + i * m_ * n_, n_, Into::assign,
           scratch, pool);
    };
    const int64_t count = static_cast<int64_t>(batches_.a.size());
    if (!side_by_side()) {
      for (int64_t i = 0; i < count; ++i) one(i, args.scratch, args.pool);
      return {};
    }
    const int64_t each = gemm_scratch_bytes(m_, n_, k_, 1);
    args.pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) one(i, args.scratch + worker * each, serial_pool());
    });
    return {};
  }

 private:
  MatmulAttrs attrs_;
  Batches batches_;
  int threads_;
  int64_t m_ = 0, n_ = 0, k_ = 0, a_stride_ = 0, b_stride_ = 0;
};

}  // namespace

bool accepts_matmul(const Graph& g, const Node& n) { return all_of_dtype(g, n, DType::f32); }

Status lower_matmul(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  auto kernel = std::make_unique<MatmulKernel>(g.type(n.inputs[0]).shape, g.type(n.inputs[1]).shape,
                                               g.type(n.outputs[0]).shape,
                                               n.attrs.as<MatmulAttrs>(), to.threads());
  const int64_t scratch = kernel->scratch_bytes();
  Step s = plain_step(to, id, std::move(kernel), "gemm.matmul");
  s.scratch_bytes = scratch;
  to.add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_HIGHWAY
