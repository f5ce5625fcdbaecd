// SPDX-License-Identifier: Apache-2.0
// Operators whose output shapes depend on what their inputs contain. Their shape rules ask for the
// content; until it is known, a node waits (core/passes/replay.hpp). All outputs are indices, so
// values chosen by them keep their gradients through gather.
#include "hone/select.hpp"

#include <algorithm>
#include <numeric>

#include "core/ops/checks.hpp"
#include "hone/op_table.hpp"

namespace hone {

namespace {

Status open(const InferCtx& c, std::string_view what) {
  return unsupported("{}: {} depends on data", c.who(), what);
}

// ---- nonzero

template <class F>
void each_nonzero(DType dtype, const void* data, int64_t count, F f) {
  dispatch(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(data);
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
        if (x[i]) f(i);
      } else {
        if (static_cast<accumulator_t<T>>(x[i]) != 0) f(i);
      }
    }
  });
}

Status infer_nonzero(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::any));
  const TensorData* x = c.constant(0);
  if (!x) return open(c, "how many elements are not zero");
  int64_t count = 0;
  each_nonzero(x->dtype(), x->data(), x->numel(), [&](int64_t) { ++count; });
  c.out(DType::i64, {c.shape(0).rank(), count});
  return {};
}

Status nonzero_kernel(const KernelArgs& args) {
  const Shape& shape = args.shape(0);
  const int64_t count = args.out[0].type.shape[1];
  int64_t* out = args.output<int64_t>(0);
  int64_t k = 0;
  each_nonzero(args.in[0].type.dtype, args.in[0].data, shape.numel(), [&](int64_t i) {
    if (k >= count) return;
    for (int axis = shape.rank(); axis-- > 0; i /= shape[axis])
      out[axis * count + k] = i % shape[axis];
    ++k;
  });
  if (k != count) return internal("nonzero: {} elements were expected, there are {}", count, k);
  return {};
}

// ---- unique

struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

// Slices are rows of `width` elements, `stride` apart, that repeat `outer` times.
template <class T>
class Slices {
 public:
  Slices(const T* x, const Shape& shape, const UniqueAttrs& attrs) : x_(x) {
    if (attrs.flat) {
      count_ = shape.numel();
      return;
    }
    const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
    count_ = shape[axis];
    outer_ = shape.product(0, axis);
    inner_ = shape.product(axis + 1, shape.rank());
  }
  int64_t count() const { return count_; }
  // Below zero: a comes before b. NaN comes last and equals itself.
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer_; ++o)
      for (int64_t i = 0; i < inner_; ++i) {
        const T x = x_[(o * count_ + a) * inner_ + i], y = x_[(o * count_ + b) * inner_ + i];
        if (less(x, y)) return -1;
        if (less(y, x)) return 1;
      }
    return 0;
  }

 private:
  static bool less(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b;
    } else {
      const auto x = static_cast<accumulator_t<T>>(a), y = static_cast<accumulator_t<T>>(b);
      return x < y || (x == x && y != y);
    }
  }
  const T* x_;
  int64_t count_ = 1, outer_ = 1, inner_ = 1;
};

template <class T>
Groups group(const Slices<T>& slices, bool sorted) {
  const size_t n = static_cast<size_t>(slices.count());
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return slices.compare(a, b) < 0; });
  Groups g;
  g.inverse.resize(n);
  for (size_t k = 0; k < n; ++k) {
    if (k == 0 || slices.compare(order[k - 1], order[k]) != 0) {
      g.first.push_back(order[k]);  // the sort is stable: the earliest of its equals
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<size_t>(order[k])] = static_cast<int64_t>(g.first.size()) - 1;
  }
  if (sorted) return g;
  std::vector<size_t> by_first(g.first.size()), place(g.first.size());
  std::iota(by_first.begin(), by_first.end(), size_t{0});
  std::sort(by_first.begin(), by_first.end(),
            [&](size_t a, size_t b) { return g.first[a] < g.first[b]; });
  Groups out;
  for (size_t k = 0; k < by_first.size(); ++k) {
    place[by_first[k]] = k;
    out.first.push_back(g.first[by_first[k]]);
    out.counts.push_back(g.counts[by_first[k]]);
  }
  for (int64_t i : g.inverse)
    out.inverse.push_back(static_cast<int64_t>(place[static_cast<size_t>(i)]));
  return out;
}

Groups groups_of(DType dtype, const void* data, const Shape& shape, const UniqueAttrs& attrs) {
  return dispatch(dtype, [&]<class T>() {
    return group(Slices<T>(static_cast<const T*>(data), shape, attrs), attrs.sorted);
  });
}

Status infer_unique(InferCtx& c) {
  const UniqueAttrs& attrs = c.attrs<UniqueAttrs>();
  HONE_TRY(need(c, 0, Accepts::any));
  if (!attrs.flat) HONE_TRY(need_axis(c, 0, attrs.axis).status());
  const TensorData* x = c.constant(0);
  if (!x) return open(c, "how many elements differ");
  const Groups g = groups_of(x->dtype(), x->data(), x->shape(), attrs);
  const int64_t k = static_cast<int64_t>(g.first.size());
  c.out(DType::i64, {k});
  c.out(DType::i64, {static_cast<int64_t>(g.inverse.size())});
  c.out(DType::i64, {k});
  return {};
}

Status unique_kernel(const KernelArgs& args) {
  const Groups g = groups_of(args.in[0].type.dtype, args.in[0].data, args.shape(0),
                             args.attrs.as<UniqueAttrs>());
  const std::vector<int64_t>* from[] = {&g.first, &g.inverse, &g.counts};
  for (size_t k = 0; k < args.out.size(); ++k) {
    if (static_cast<int64_t>(from[k]->size()) != args.out[k].numel())
      return internal("unique: {} values were expected, there are {}", args.out[k].numel(),
                      from[k]->size());
    std::copy(from[k]->begin(), from[k]->end(), args.output<int64_t>(static_cast<int>(k)));
  }
  return {};
}

// ---- non_max_suppression

struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_at(const float* p, bool center) {
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

float overlap(const Box& a, const Box& b) {
  const float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  const float both = h * w, either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

struct Chosen {
  int64_t batch, klass, box;
};

struct Suppression {
  const float *boxes, *scores;
  int64_t batches, classes, count, most;
  float max_overlap, min_score;
  bool has_min_score, center;

  // Greedily by score; of equal scores the earlier box.
  std::vector<Chosen> run() const {
    std::vector<Chosen> out;
    for (int64_t n = 0; n < batches; ++n)
      for (int64_t c = 0; c < classes; ++c) one_class(n, c, out);
    return out;
  }

 private:
  void one_class(int64_t n, int64_t c, std::vector<Chosen>& out) const {
    const float* score = scores + (n * classes + c) * count;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i)
      if (!has_min_score || score[i] > min_score) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    std::vector<Box> kept;
    for (int64_t i : order) {
      if (static_cast<int64_t>(kept.size()) >= most) break;
      const Box box = box_at(boxes + (n * count + i) * 4, center);
      const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Box& other) {
        return overlap(box, other) > max_overlap;
      });
      if (hidden) continue;
      kept.push_back(box);
      out.push_back({n, c, i});
    }
  }
};

template <class Get>
Suppression suppression(const Attrs& attrs, const Shape& boxes, const Shape& scores, Get get) {
  Suppression s{};
  s.boxes = static_cast<const float*>(get(0));
  s.scores = static_cast<const float*>(get(1));
  s.batches = scores[0];
  s.classes = scores[1];
  s.count = boxes[1];
  s.center = attrs.as<NonMaxSuppressionAttrs>().center_point_box;
  if (const void* p = get(2)) s.most = std::max<int64_t>(0, *static_cast<const int64_t*>(p));
  if (const void* p = get(3)) s.max_overlap = *static_cast<const float*>(p);
  if (const void* p = get(4)) {
    s.has_min_score = true;
    s.min_score = *static_cast<const float*>(p);
  }
  return s;
}

Status infer_non_max_suppression(InferCtx& c) {
  for (int i : {0, 1}) {
    HONE_TRY(need_rank(c, i, 3));
    if (c.dtype(i) != DType::f32) return c.error("input {} is {}, expected f32", i, c.in(i));
  }
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes[0] != scores[0] || boxes[1] != scores[2] || boxes[2] != 4)
    return c.error(
        "boxes {} and scores {} do not belong together: (N, boxes, 4) and (N, classes, boxes)",
        boxes, scores);
  for (int i : {2, 3, 4}) {
    if (!c.has(i)) continue;
    const DType want = i == 2 ? DType::i64 : DType::f32;
    if (c.dtype(i) != want || c.shape(i).numel() != 1)
      return c.error("input {} is {}, expected one {}", i, c.in(i), to_string(want));
  }
  bool known = true;
  for (int i = 0; i < 5; ++i) known &= !c.has(i) || c.constant(i) != nullptr;
  if (!known) return open(c, "how many boxes remain");
  const auto get = [&](int i) { return c.has(i) ? c.constant(i)->data() : nullptr; };
  const size_t chosen = suppression(c.raw_attrs(), boxes, scores, get).run().size();
  c.out(DType::i64, {static_cast<int64_t>(chosen), 3});
  return {};
}

Status non_max_suppression_kernel(const KernelArgs& args) {
  const auto get = [&](int i) -> const void* {
    return args.has(i) ? args.in[static_cast<size_t>(i)].data : nullptr;
  };
  const std::vector<Chosen> chosen =
      suppression(args.attrs, args.shape(0), args.shape(1), get).run();
  if (static_cast<int64_t>(chosen.size()) * 3 != args.out[0].numel())
    return internal("non_max_suppression: {} boxes were expected, there are {}",
                    args.out[0].type.shape[0], chosen.size());
  int64_t* out = args.output<int64_t>(0);
  for (const Chosen& k : chosen) {
    *out++ = k.batch;
    *out++ = k.klass;
    *out++ = k.box;
  }
  return {};
}

}  // namespace

// nonzero(x) -> indices of the elements that are not zero, a column for each, in row-major order.
// any (..) -> i64 (rank, count)
const OpDef op::nonzero = {
    .name = "nonzero",
    .infer = infer_nonzero,
    .diff = Diff::zero,
    .kernel = nonzero_kernel,
    .flops = no_flops,
};

// unique(x) -> (first, inverse, counts): the index of each different slice's first occurrence, for
// each slice which of these it equals, and how many equal each.   any (..) -> i64 (k), (n), (k)
const OpDef op::unique = {
    .name = "unique",
    .attrs = &kAttrSchema<UniqueAttrs>,
    .infer = infer_unique,
    .diff = Diff::zero,
    .kernel = unique_kernel,
    .flops = no_flops,
};

// non_max_suppression(boxes, scores, most?, max_overlap?, min_score?) -> (batch, class, box) of
// the boxes kept.   f32 (N, B, 4), f32 (N, C, B), i64, f32, f32 -> i64 (k, 3)
const OpDef op::non_max_suppression = {
    .name = "non_max_suppression",
    .attrs = &kAttrSchema<NonMaxSuppressionAttrs>,
    .min_inputs = 2,
    .max_inputs = 5,
    .infer = infer_non_max_suppression,
    .diff = Diff::zero,
    .kernel = non_max_suppression_kernel,
    .flops = no_flops,
};

}  // namespace hone
