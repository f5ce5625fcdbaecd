// SPDX-License-Identifier: Apache-2.0
// top_k(x) -> (values, indices): the k largest or smallest elements along an axis. NaN counts as
// larger than every number; of equal elements the one with the lower index comes first.
#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

Status infer_top_k(InferCtx& c, const TopKAttrs& attrs) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_ASSIGN(const int axis, need_axis(c, 0, attrs.axis));
  Shape out = c.shape(0);
  if (attrs.k < 0 || attrs.k > out[axis])
    return c.error("cannot take {} elements of axis {} of {}", attrs.k, axis, c.in(0));
  out[axis] = attrs.k;
  c.out(c.dtype(0), out);
  c.out(DType::i64, out);
  return {};
}

Result<TopKAttrs> dyn_attrs(const InferCtx& c) {
  HONE_TRY(need(c, 1, Accepts::indices));
  const TensorData* k = c.constant(1);
  if (!k)
    return unsupported(
        "{}: input 1 decides the output's shape and needs to be known before running", c.who());
  if (k->numel() != 1) return c.error("input 1, k, is {}, not one number", c.in(1));
  TopKAttrs attrs = c.attrs<TopKAttrs>();
  attrs.k = k->int_at(0);
  return attrs;
}

template <class T>
bool is_larger(T a, T b) {
  return a > b || (a != a && b == b);
}

// Order of elements i and j of one line.
template <class T>
struct Before {
  const T* line;
  int64_t stride;
  bool largest;
  bool operator()(int64_t i, int64_t j) const {
    const T a = line[i * stride], b = line[j * stride];
    if (largest ? is_larger(a, b) : is_larger(b, a)) return true;
    if (largest ? is_larger(b, a) : is_larger(a, b)) return false;
    return i < j;
  }
};

// Room for the indices of one line; lines are done one after the other.
int64_t top_k_scratch(const NodeTypes& t) {
  const Shape& in = t.in[0]->shape;
  const int64_t axis = t.attrs.as<TopKAttrs>().axis;
  return in[static_cast<int>(axis < 0 ? axis + in.rank() : axis)] *
         static_cast<int64_t>(sizeof(int64_t));
}

Status top_k_kernel(const KernelArgs& args) {
  const TopKAttrs& attrs = args.attrs.as<TopKAttrs>();
  const Shape& in = args.shape(0);
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + in.rank() : attrs.axis);
  const int64_t n = in[axis], inner = in.product(axis + 1, in.rank()), k = attrs.k;
  if (args.out[0].numel() == 0) return {};
  int64_t* order = reinterpret_cast<int64_t*>(args.scratch);
  int64_t* indices = args.output<int64_t>(1);
  dispatch(args.in[0].type.dtype, [&]<class T>() {
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    for (int64_t line = 0; line < in.numel() / n; ++line) {
      const T* first = x + line / inner * n * inner + line % inner;
      for (int64_t i = 0; i < n; ++i) order[i] = i;
      std::partial_sort(order, order + k, order + n, Before<T>{first, inner, attrs.largest});
      const int64_t out = line / inner * k * inner + line % inner;
      for (int64_t i = 0; i < k; ++i) {
        y[out + i * inner] = first[order[i] * inner];
        indices[out + i * inner] = order[i];
      }
    }
  });
  return {};
}

}  // namespace

constinit const OpDef op::top_k = {
    .name = "top_k",
    .attrs = &kAttrSchema<TopKAttrs>,
    .infer = [](InferCtx& c) { return infer_top_k(c, c.attrs<TopKAttrs>()); },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const ScatterAttrs there{c.attrs<TopKAttrs>().axis, ScatterMode::add};
          c.set(0, c.b.emit(op::scatter_elements,
                            {ops::zeros_like(c.in(0)), c.out(1), c.out_grad(0)}, there));
        },
    .kernel = top_k_kernel,
    .scratch = top_k_scratch,
};

// top_k_dyn(x, k)
constinit const OpDef op::top_k_dyn = {
    .name = "top_k_dyn",
    .attrs = &kAttrSchema<TopKAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const TopKAttrs attrs, dyn_attrs(c));
      return infer_top_k(c, attrs);
    },
    .decompose =
        [](DecomposeCtx& c) {
          TopKAttrs attrs = c.attrs<TopKAttrs>();
          attrs.k = c.constant(1)->int_at(0);
          const Value in[] = {c.in(0)};
          const std::vector<Value> outs = c.b.emit_all(op::top_k, in, attrs);
          for (size_t i = 0; i < outs.size(); ++i) c.set(static_cast<int>(i), outs[i]);
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
