// SPDX-License-Identifier: Apache-2.0
// Cross entropy with class indices, fused: log-softmax, choice of the label's entry, weights,
// smoothing and reduction.
//
// A row is one position of the labels. Its loss is -sum_c t[c] * log p[c], where p is the softmax
// of its logits and
//   t[c] = weight[c] * ((1 - smoothing) * [c is the label] + smoothing / classes),
// and 0 when the label is ignore_index, whatever the logits are. The mean divides by the sum of
// weight[label] over the rows that count (PyTorch's rule, with smoothing too); when that is 0 the
// loss is 0, where PyTorch gives NaN.
#include <algorithm>
#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

namespace {

// Losses of half floats are f32: a sum of many would not fit.
DType loss_dtype(DType logits) { return logits == DType::f64 ? DType::f64 : DType::f32; }

// A single row may come as a vector of logits and a scalar label.
int64_t axis_of(const CrossEntropyAttrs& attrs, int rank) { return rank == 1 ? 0 : attrs.axis; }

Result<int> check_inputs(const InferCtx& c) {
  const CrossEntropyAttrs& attrs = c.attrs<CrossEntropyAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_ASSIGN(const int axis, need_axis(c, 0, axis_of(attrs, c.shape(0).rank())));
  Shape rows = c.shape(0);
  const int64_t classes = rows[axis];
  rows.erase(axis);
  if (is_float(c.dtype(1)) || c.shape(1) == c.shape(0))
    return c.error(
        "expects class indices (i32 or i64) of shape {} as labels, got {}; if these are one-hot or "
        "probabilities, "
        "take their argmax over the class axis {} first",
        rows, c.in(1), axis);
  HONE_TRY(need(c, 1, Accepts::indices));
  if (c.shape(1) != rows)
    return c.error(
        "labels have shape {}, expected {}: that of the logits {} without the class axis {}",
        c.shape(1), rows, c.shape(0), axis);
  if (classes < 1) return c.error("the logits {} have no classes on axis {}", c.shape(0), axis);
  if (c.has(2) && c.shape(2) != Shape{classes})
    return c.error("class weights have shape {}, expected one for each of {} classes", c.shape(2),
                   classes);
  if (c.has(2) && c.dtype(2) != c.dtype(0) && c.dtype(2) != loss_dtype(c.dtype(0)))
    return c.error("class weights are {}, the logits {}", c.dtype(2), c.dtype(0));
  if (!(attrs.label_smoothing >= 0 && attrs.label_smoothing <= 1))
    return c.error("label_smoothing is {}, outside [0, 1]", attrs.label_smoothing);
  return axis;
}

TensorType loss_type(const InferCtx& c) {
  const bool each = c.attrs<CrossEntropyAttrs>().reduction == Reduction::none;
  return {loss_dtype(c.dtype(0)), each ? c.shape(1) : Shape{}};
}

Status infer_cross_entropy(InferCtx& c) {
  HONE_TRY(check_inputs(c).status());
  c.out(loss_type(c));
  return {};
}

Status infer_cross_entropy_grad(InferCtx& c) {
  HONE_TRY(check_inputs(c).status());
  if (!c.has(3)) return c.error("the loss's gradient (input 3) is missing");
  if (c.in(3) != loss_type(c))
    return c.error("the loss's gradient is {}, expected {}", c.in(3), loss_type(c));
  c.out(c.in(0));
  return {};
}

// ---- kernels

int64_t integer(const ConstTensorView& v, int64_t i) {
  return v.type.dtype == DType::i32 ? v.as<int32_t>()[i] : v.as<int64_t>()[i];
}

// What both kernels know of their inputs.
struct Problem {
  const KernelArgs& args;
  const CrossEntropyAttrs& attrs;
  int64_t classes, inner, rows;
  double total_weight = 0;  // of all classes
  double divisor = 1;       // of the reduction; 0 when no row counts

  int64_t label(int64_t row) const { return integer(args.in[1], row); }
  bool ignored(int64_t row) const { return label(row) == attrs.ignore_index; }
  /// Offset of a row's first logit; the next ones are `inner` apart.
  int64_t offset(int64_t row) const { return row / inner * inner * classes + row % inner; }
  double weight(int64_t c) const {
    if (!args.has(2)) return 1;
    const ConstTensorView& w = args.in[2];
    return dispatch_float(w.type.dtype, [&]<class T>() {
      return static_cast<double>(static_cast<accumulator_t<T>>(w.as<T>()[c]));
    });
  }
  /// Share of the smoothing that each class's weight gets.
  double smooth() const { return attrs.label_smoothing / static_cast<double>(classes); }
};

Result<Problem> problem(const KernelArgs& args) {
  const CrossEntropyAttrs& attrs = args.attrs.as<CrossEntropyAttrs>();
  const Shape& logits = args.shape(0);
  HONE_ASSIGN(const int axis, normalize_axis(axis_of(attrs, logits.rank()), logits.rank()));
  Problem p{args, attrs, logits[axis], logits.product(axis + 1, logits.rank()), args.in[1].numel()};
  double divisor = 0;
  for (int64_t row = 0; row < p.rows; ++row) {
    if (p.ignored(row)) continue;
    const int64_t label = p.label(row);
    if (label < 0 || label >= p.classes)
      return invalid(
          "the label {} at position {} is outside [0, {}): there are {} classes (ignore_index is "
          "{})",
          label, row, p.classes, p.classes, attrs.ignore_index);
    divisor += p.weight(label);
  }
  for (int64_t c = 0; c < p.classes; ++c) p.total_weight += p.weight(c);
  if (attrs.reduction == Reduction::mean) p.divisor = divisor;
  return p;
}

// log p[c] = (z[c] - largest) - log_sum
template <class S>
struct RowNorm {
  S largest;
  double log_sum;
};
template <class T>
RowNorm<accumulator_t<T>> row_norm(const T* z, const Problem& p) {
  using S = accumulator_t<T>;
  S largest = -std::numeric_limits<S>::infinity();
  for (int64_t c = 0; c < p.classes; ++c) {
    const S v = static_cast<S>(z[c * p.inner]);
    if (v > largest || std::isnan(v)) largest = v;
  }
  // Nothing is possible: log p is -inf throughout, as in log_softmax.
  if (largest == -std::numeric_limits<S>::infinity()) return {S(0), 0};
  double sum = 0;
  for (int64_t c = 0; c < p.classes; ++c)
    sum += static_cast<double>(std::exp(static_cast<S>(z[c * p.inner]) - largest));
  return {largest, std::log(sum)};
}

template <class T>
double row_loss(const T* z, const Problem& p, int64_t row) {
  using S = accumulator_t<T>;
  const RowNorm<S> norm = row_norm<T>(z, p);
  const auto log_p = [&](int64_t c) {
    return static_cast<double>(static_cast<S>(z[c * p.inner]) - norm.largest) - norm.log_sum;
  };
  const int64_t label = p.label(row);
  const double sharp = (1 - p.attrs.label_smoothing) * p.weight(label);
  double loss = sharp == 0 ? 0 : -sharp * log_p(label);
  if (p.attrs.label_smoothing == 0) return loss;
  for (int64_t c = 0; c < p.classes; ++c) {
    const double t = p.smooth() * p.weight(c);
    if (t != 0) loss -= t * log_p(c);
  }
  return loss;
}

template <class F>
void for_rows(const Problem& p, F f) {
  constexpr int64_t kElements = 4096;  // for one thread, at least
  p.args.pool.parallel_for(p.rows, 1 + kElements / (p.classes + 1),
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t row = begin; row < end; ++row) f(row);
                           });
}

Status cross_entropy_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Problem p, problem(args));
  double* losses = reinterpret_cast<double*>(args.scratch);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    const T* z = args.input<T>(0);
    for_rows(p, [&](int64_t row) {
      losses[row] = p.ignored(row) ? 0 : row_loss<T>(z + p.offset(row), p, row);
    });
  });
  dispatch_float(args.out[0].type.dtype, [&]<class T>() {
    T* y = args.output<T>(0);
    if (p.attrs.reduction == Reduction::none) {
      for (int64_t row = 0; row < p.rows; ++row) y[row] = static_cast<T>(losses[row]);
      return;
    }
    double sum = 0;
    for (int64_t row = 0; row < p.rows; ++row) sum += losses[row];
    y[0] = static_cast<T>(p.divisor == 0 ? 0 : sum / p.divisor);
  });
  return {};
}

// d loss / d z[c] = p[c] * sum(t) - t[c]
template <class T>
void row_grad(const T* z, T* gz, const Problem& p, int64_t row, double g) {
  using S = accumulator_t<T>;
  const RowNorm<S> norm = row_norm<T>(z, p);
  const double scale = std::exp(-norm.log_sum);
  const int64_t label = p.label(row);
  const double sharp = (1 - p.attrs.label_smoothing) * p.weight(label);
  const double sum_t = sharp + p.smooth() * p.total_weight;
  const double smooth = p.smooth();
  for (int64_t c = 0; c < p.classes; ++c) {
    const double probability =
        static_cast<double>(std::exp(static_cast<S>(z[c * p.inner]) - norm.largest)) * scale;
    const double t = (c == label ? sharp : 0) + (smooth == 0 ? 0 : smooth * p.weight(c));
    gz[c * p.inner] = static_cast<T>(g * (probability * sum_t - t));
  }
}

Status cross_entropy_grad_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Problem p, problem(args));
  const bool each = p.attrs.reduction == Reduction::none;
  const auto upstream = [&](int64_t row) {
    const ConstTensorView& gy = args.in[3];
    const int64_t i = each ? row : 0;
    return gy.type.dtype == DType::f64 ? gy.as<double>()[i]
                                       : static_cast<double>(gy.as<float>()[i]);
  };
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_rows(p, [&](int64_t row) {
      const T* z = args.input<T>(0) + p.offset(row);
      T* gz = args.output<T>(0) + p.offset(row);
      if (p.ignored(row) || p.divisor == 0)
        for (int64_t c = 0; c < p.classes; ++c) gz[c * p.inner] = T(0);
      else
        row_grad<T>(z, gz, p, row, upstream(row) / p.divisor);
    });
  });
  return {};
}

// ---- decompositions

// The parts that all formulas are written with. `share` and `t` have the shape of the logits,
// `ignored` and `weight` one class.
struct Parts {
  int axis;
  Value logits;    // 0 in ignored rows, so that what stands there cannot do harm
  Value is_label;  // 1 at the label of each row that counts
  Value share, t;  // t[c] = weight[c] * share[c]
  Value ignored;
  Value divisor, none_counts;  // of the mean; divisor is 1 when none counts
};

Parts parts(Builder& b, Value logits, Value class_indices, Value weights,
            const CrossEntropyAttrs& attrs) {
  const DType type = loss_dtype(logits.dtype());
  Shape one_class = logits.shape();
  Parts p;
  const int64_t axis = axis_of(attrs, one_class.rank());
  p.axis = static_cast<int>(axis < 0 ? axis + one_class.rank() : axis);
  const int64_t classes = one_class[p.axis];
  one_class[p.axis] = 1;
  Shape along = Shape::filled(one_class.rank(), 1);
  along[p.axis] = classes;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < classes; ++i) indices.push_back(i);

  const Value labels = ops::reshape(ops::cast(class_indices, DType::i64), one_class);
  p.ignored = ops::equal(labels, b.scalar(static_cast<double>(attrs.ignore_index), DType::i64));
  const Value counts = ops::cast(ops::logical_not(p.ignored), type);
  p.is_label = ops::cast(ops::equal(labels, ops::reshape(b.ints(indices), along)), type) * counts;
  p.share = p.is_label;
  if (attrs.label_smoothing != 0)
    p.share = p.is_label * (1 - attrs.label_smoothing) +
              counts * (attrs.label_smoothing / static_cast<double>(classes));
  p.t = p.share;
  Value weight = p.is_label;
  if (weights.valid()) {
    const Value w = ops::reshape(ops::cast(weights, type), along);
    p.t = p.share * w;
    weight = p.is_label * w;
  }
  const Value zero = b.scalar(0, type), one = b.scalar(1, type);
  p.logits = ops::where(p.ignored, zero, ops::cast(logits, type));
  const Value sum = ops::sum(weight, {{}, false});
  p.none_counts = ops::equal(sum, zero);
  p.divisor = ops::where(p.none_counts, one, sum);
  return p;
}

Parts parts(DecomposeCtx& c) {
  return parts(c.b, c.in(0), c.in(1), c.has(2) ? c.in(2) : Value(), c.attrs<CrossEntropyAttrs>());
}

// What has no share does not count, even where its log-probability is -inf.
Value shared(Builder& b, Value share, const Parts& p) {
  const Value zero = b.scalar(0, share.dtype());
  return ops::where(ops::equal(share, zero), zero, share * ops::log_softmax(p.logits, p.axis));
}

void decompose_cross_entropy(DecomposeCtx& c) {
  const CrossEntropyAttrs& attrs = c.attrs<CrossEntropyAttrs>();
  const Parts p = parts(c);
  const Value zero = c.b.scalar(0, loss_dtype(c.type(0).dtype));
  const Value losses = -ops::sum(shared(c.b, p.t, p), {{p.axis}, false});
  if (attrs.reduction == Reduction::none) return c.set(0, losses);
  const Value sum = ops::sum(losses, {{}, false});
  c.set(0,
        attrs.reduction == Reduction::sum ? sum : ops::where(p.none_counts, zero, sum / p.divisor));
}

void decompose_cross_entropy_grad(DecomposeCtx& c) {
  const CrossEntropyAttrs& attrs = c.attrs<CrossEntropyAttrs>();
  const Parts p = parts(c);
  const Value zero = c.b.scalar(0, loss_dtype(c.type(0).dtype));
  Value g = c.in(3);
  if (attrs.reduction == Reduction::none) {
    Shape one_class = c.shape(0);
    one_class[p.axis] = 1;
    g = ops::reshape(g, one_class);
  } else if (attrs.reduction == Reduction::mean) {
    g = ops::where(p.none_counts, zero, g / p.divisor);
  }
  const Value d = ops::softmax(p.logits, p.axis) * ops::sum(p.t, {{p.axis}, true}) - p.t;
  c.set(0, ops::cast(d * g, c.type(0).dtype));
}

// The loss is linear in the weights but for the mean's divisor, which holds those of the labels:
// d loss / d weight[c] = sum over rows of -share[c] log p[c], for the mean less loss * (rows with
// label c), and divided. 0 when none counts.
Value weights_grad(GradCtx& c) {
  const CrossEntropyAttrs& attrs = c.attrs<CrossEntropyAttrs>();
  const Parts p = parts(c.b, c.in(0), c.in(1), c.in(2), attrs);
  Value g = c.out_grad(0), terms = -shared(c.b, p.share, p);
  std::vector<int64_t> rows;
  for (int axis = 0; axis < c.shape(0).rank(); ++axis)
    if (axis != p.axis) rows.push_back(axis);
  if (attrs.reduction == Reduction::none) {
    g = ops::reshape(g, c.b.graph().type(p.ignored.id()).shape);
  } else if (attrs.reduction == Reduction::mean) {
    terms = terms - p.is_label * c.out(0);
    g = ops::where(p.none_counts, c.b.scalar(0, g.dtype()), g / p.divisor);
  }
  terms = terms * g;
  return ops::cast(rows.empty() ? terms : ops::sum(terms, {rows, false}), c.in(2).dtype());
}

}  // namespace

// cross_entropy(logits, labels, weights?): see above.   (.., C, ..), (.., ..), (C) -> [] or the
// labels' shape Computed in f32 for half floats; the loss of those is f32.
const OpDef op::cross_entropy = {
    .name = "cross_entropy",
    .attrs = &kAttrSchema<CrossEntropyAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_cross_entropy,
    .decompose = decompose_cross_entropy,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          if (c.needs(2)) c.set(2, weights_grad(c));
          c.set(0, c.b.emit(op::cross_entropy_grad, {c.in(0), c.in(1), c.in(2), c.out_grad(0)},
                            c.raw_attrs()));
        },
    .kernel = cross_entropy_kernel,
    .scratch =
        [](const NodeTypes& n) { return n.in[1]->numel() * static_cast<int64_t>(sizeof(double)); },
    .flops = [](const NodeTypes& n) { return 5.0 * static_cast<double>(n.in[0]->numel()); },
};

// cross_entropy_grad(logits, labels, weights?, gy): the gradient by the logits, 0 in ignored rows.
// (.., C, ..), (.., ..), (C), [] or (.., ..) -> (.., C, ..)
const OpDef op::cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .attrs = &kAttrSchema<CrossEntropyAttrs>,
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = infer_cross_entropy_grad,
    .decompose = decompose_cross_entropy_grad,
    .diff = Diff::by_decomposition,
    .kernel = cross_entropy_grad_kernel,
    .flops = [](const NodeTypes& n) { return 8.0 * static_cast<double>(n.in[0]->numel()); },
    .inplace = Inplace::any_input,
};

}  // namespace hone
