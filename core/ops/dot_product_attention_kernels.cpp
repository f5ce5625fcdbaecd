// SPDX-License-Identifier: Apache-2.0
// Each score is computed where it is needed, in double; kept are three numbers a query.
#include "core/ops/dot_product_attention_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/norm.hpp"
#include "hone/attention_attrs.hpp"

namespace hone {

namespace {

using DotAttrs = DotProductAttentionAttrs;
using Extents = DotProductAttentionShape;

// One operand of (B, H, L, D) or (B, L, H, D).
template <class T>
struct Rows {
  T* data;
  HeadStrides strides;
  int64_t size;
  Rows(T* p, const Shape& s, bool tokens_first) : data(p), strides(s, tokens_first), size(s[3]) {}
  T* at(int64_t b, int64_t h, int64_t l) const { return data + strides.at(b, h, l); }
};

template <class T>
double dot(const T* a, const T* b, int64_t n) {
  return interleaved_sum(n, [&](int64_t i) { return wide(a[i]) * wide(b[i]); });
}

template <class T>
class Reference {
 public:
  explicit Reference(const KernelArgs& args)
      : args_(args),
        a_(args.attrs.as<DotAttrs>()),
        e_(args.shape(0), args.shape(1), args.shape(2), a_),
        q_(rows(0)),
        k_(rows(1)),
        v_(rows(2)) {
    if (args.has(3)) mask_strides_ = broadcast_strides(args.shape(3), e_.scores());
  }

  void forward() {
    const Rows<T> y(args_.output<T>(0), args_.out[0].type.shape, a_.tokens_first);
    each(e_.heads * e_.queries, [&](int64_t b, int64_t i) {
      const int64_t h = i / e_.queries, l = i % e_.queries;
      const Query query = query_of(b, h, l);
      add_up(y.at(b, h, l), y.size, e_.keys, [&](int64_t j) {
        return std::pair(probability(b, h, l, j, query), v_.at(b, kv(h), j));
      });
    });
  }

  void backward() {
    const Rows<T> gq = out(0), gk = out(1), gv = out(2);
    std::vector<Query> queries(static_cast<size_t>(e_.batch * e_.heads * e_.queries));
    const auto query = [&](int64_t b, int64_t h, int64_t l) -> Query& {
      return queries[static_cast<size_t>((b * e_.heads + h) * e_.queries + l)];
    };
    each(e_.heads * e_.queries, [&](int64_t b, int64_t i) {
      const int64_t h = i / e_.queries, l = i % e_.queries;
      Query& mine = query(b, h, l);
      mine = query_of(b, h, l);
      for (int64_t j = 0; j < e_.keys; ++j)
        if (const double p = probability(b, h, l, j, mine); p != 0)
          mine.shift += p * probability_grad(b, h, l, j);
      add_up(gq.at(b, h, l), e_.size, e_.keys, [&](int64_t j) {
        return std::pair(e_.scale * score_grad(b, h, l, j, mine), k_.at(b, kv(h), j));
      });
    });
    const int64_t group = e_.heads / e_.kv_heads;
    each(e_.kv_heads * e_.keys, [&](int64_t b, int64_t i) {
      const int64_t n = i / e_.keys, j = i % e_.keys;
      const auto head = [&](int64_t at) { return n * group + at / e_.queries; };
      add_up(gk.at(b, n, j), e_.size, group * e_.queries, [&](int64_t at) {
        const int64_t h = head(at), l = at % e_.queries;
        return std::pair(e_.scale * score_grad(b, h, l, j, query(b, h, l)), q_.at(b, h, l));
      });
      add_up(gv.at(b, n, j), e_.value_size, group * e_.queries, [&](int64_t at) {
        const int64_t h = head(at), l = at % e_.queries;
        return std::pair(probability(b, h, l, j, query(b, h, l)), grad().at(b, h, l));
      });
    });
  }

 private:
  // Of one query: the largest score, the sum of exponentials of what others are below it, and what
  // its gradients of probabilities are shifted by, rowsum(P dP).
  struct Query {
    double largest, sum, shift;
  };

  Rows<const T> rows(int i) const { return {args_.input<T>(i), args_.shape(i), a_.tokens_first}; }
  Rows<T> out(int i) const { return {args_.output<T>(i), args_.shape(i), a_.tokens_first}; }
  Rows<const T> grad() const { return rows(kGrad); }
  int64_t kv(int64_t h) const { return h / (e_.heads / e_.kv_heads); }

  template <class F>
  void each(int64_t count, F f) const {
    args_.pool.parallel_for(e_.batch * count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) f(i / count, i % count);
    });
  }

  double score(int64_t b, int64_t h, int64_t l, int64_t j) const {
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    if (a_.causal && j > l) return kNever;
    double bias = 0;
    if (args_.has(3)) {
      const int64_t at =
          b * mask_strides_[0] + h * mask_strides_[1] + l * mask_strides_[2] + j * mask_strides_[3];
      if (args_.in[3].type.dtype != DType::bool_)
        bias = element(args_.in[3], at);
      else if (!args_.input<bool>(3)[at])
        return kNever;
    }
    return e_.scale * dot(q_.at(b, h, l), k_.at(b, kv(h), j), e_.size) + bias;
  }

  Query query_of(int64_t b, int64_t h, int64_t l) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < e_.keys; ++j) {
      const double s = score(b, h, l, j);
      if (s > largest || std::isnan(s)) largest = s;
    }
    if (std::isinf(largest) && largest < 0) return {largest, 0, 0};
    for (int64_t j = 0; j < e_.keys; ++j) sum += std::exp(score(b, h, l, j) - largest);
    return {largest, sum, 0};
  }
  double probability(int64_t b, int64_t h, int64_t l, int64_t j, const Query& query) const {
    if (query.sum == 0) return 0;  // sees no key
    return std::exp(score(b, h, l, j) - query.largest) / query.sum;
  }
  double probability_grad(int64_t b, int64_t h, int64_t l, int64_t j) const {
    return dot(grad().at(b, h, l), v_.at(b, kv(h), j), e_.value_size);
  }
  double score_grad(int64_t b, int64_t h, int64_t l, int64_t j, const Query& query) const {
    return probability(b, h, l, j, query) * (probability_grad(b, h, l, j) - query.shift);
  }

  // to = sum over j of factor times row, which term(j) gives.
  template <class F>
  static void add_up(T* to, int64_t size, int64_t count, F term) {
    constexpr int64_t kColumns = 128;
    for (int64_t first = 0; first < size; first += kColumns) {
      const int64_t n = std::min(kColumns, size - first);
      double sums[kColumns] = {};
      for (int64_t j = 0; j < count; ++j) {
        const auto [factor, row] = term(j);
        if (factor == 0) continue;  // a key that is hidden may hold anything
        for (int64_t i = 0; i < n; ++i) sums[i] += factor * wide(row[first + i]);
      }
      for (int64_t i = 0; i < n; ++i) to[first + i] = static_cast<T>(sums[i]);
    }
  }

  const KernelArgs& args_;
  const DotAttrs& a_;
  const Extents e_;
  const Rows<const T> q_, k_, v_;
  Shape mask_strides_;
};

}  // namespace

Status run_dot_product_attention(const KernelArgs& args) {
  dispatch_float(args.in[0].type.dtype, [&]<class T>() { Reference<T>(args).forward(); });
  return {};
}

Status run_dot_product_attention_grad(const KernelArgs& args) {
  dispatch_float(args.in[0].type.dtype, [&]<class T>() { Reference<T>(args).backward(); });
  return {};
}

}  // namespace hone
