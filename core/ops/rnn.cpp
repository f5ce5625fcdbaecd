// SPDX-License-Identifier: Apache-2.0
// The simple recurrent cell over time and its gradient: h[t] = f(x[t] + h[t-1] R^T).
#include "core/ops/recurrent.hpp"

namespace hone {

namespace {

using namespace recurrent;

constexpr std::string_view kDefaults = "tanh";

Status need_cells(const InferCtx& c, int lengths) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank(c, 0, 3));
  HONE_TRY(need_rank(c, 1, 2));
  const int64_t hidden = c.shape(0)[2];
  HONE_TRY(need_shape(c, 1, "the recurrent weight", {hidden, hidden}));
  HONE_TRY(need_lengths(c, lengths, c.shape(0)[1]));
  const auto acts = activations_of(c.attrs<RecurrentAttrs>(), kDefaults);
  return acts.ok() ? Status() : acts.status().with_context(c.who());
}

template <class T>
Status forward(const KernelArgs& args, ProductFn<wide_t<T>> product,
               const FloatActivations* fast = nullptr) {
  using S = wide_t<T>;
  const RecurrentAttrs& attrs = args.attrs.as<RecurrentAttrs>();
  HONE_ASSIGN(Activations act, activations_of(attrs, kDefaults));
  use(fast, act);
  const Shape& x = args.shape(0);
  const int64_t batch = x[1], n = x[2], state = batch * n;
  const Lengths lengths(args, 3);
  Scratch scratch(args.scratch);
  S *h = scratch.take<S>(state), *z = scratch.take<S>(state);
  const S* r = transposed<S>(args.input<T>(1), n, n, scratch);
  load(args.input<T>(2), h, state);
  for_steps(x[0], attrs.direction == Direction::reverse, [&](int64_t t) {
    const T* xt = args.input<T>(0) + t * state;
    T* y = args.output<T>(0) + t * state;
    product({batch, n, n, h, n, r, n, false, z, n, false});
    for_rows(args.pool, batch, n, [&](int64_t b) {
      S *zb = z + b * n, *hb = h + b * n;
      if (lengths.active(t, b)) {
        for (int64_t k = 0; k < n; ++k) hb[k] = zb[k] + static_cast<S>(xt[b * n + k]);
        apply(act[0], hb, n);
      }
      store(hb, y + b * n, n);
    });
  });
  return {};
}

template <class T>
Status backward(const KernelArgs& args, ProductFn<wide_t<T>> product,
                const FloatActivations* fast = nullptr) {
  using S = wide_t<T>;
  const RecurrentAttrs& attrs = args.attrs.as<RecurrentAttrs>();
  HONE_ASSIGN(Activations act, activations_of(attrs, kDefaults));
  use(fast, act);
  const Shape& y = args.shape(0);
  const int64_t batch = y[1], n = y[2], state = batch * n;
  const Lengths lengths(args, 3);
  Scratch scratch(args.scratch);
  S *dh = scratch.take<S>(state), *dz = scratch.take<S>(state), *h = scratch.take<S>(state);
  const S* r = widened<S>(args.input<T>(1), n * n, scratch);
  std::fill_n(dh, state, S(0));
  for_steps(y[0], attrs.direction != Direction::reverse, [&](int64_t t) {
    const int64_t at = t * state;
    for_rows(args.pool, batch, n, [&](int64_t b) {
      S *dhb = dh + b * n, *dzb = dz + b * n;
      for (int64_t k = 0; k < n; ++k) dhb[k] += static_cast<S>(args.input<T>(2)[at + b * n + k]);
      if (lengths.active(t, b)) {
        load(args.input<T>(0) + at + b * n, h + b * n, n);
        std::copy_n(dhb, n, dzb);
        std::fill_n(dhb, n, S(0));
        times_slope(act[0], h + b * n, dzb, n);
      } else {
        std::fill_n(dzb, n, S(0));
      }
      store(dzb, args.output<T>(0) + at + b * n, n);
    });
    product({batch, n, n, dz, n, r, n, false, dh, n, true});
  });
  store(dh, args.output<T>(1), state);
  return {};
}

int64_t cell_scratch(const NodeTypes& t) {
  const Shape& x = t.in[0]->shape;
  const DType d = t.in[0]->dtype;
  return 3 * piece(x[1] * x[2], d) + piece(x[2] * x[2], d);
}

double cell_flops(const NodeTypes& t) {
  const Shape& s = t.in[0]->shape;
  return 2.0 * static_cast<double>(s.numel()) * static_cast<double>(s[2]);
}

void decompose_cells(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const auto act = activations_of(attrs, kDefaults);
  if (!act.ok()) return c.fail(act.status().message());
  const int64_t steps = c.shape(0)[0];
  Value h = c.in(2);
  std::vector<Value> hs(static_cast<size_t>(steps));
  for_steps(steps, attrs.direction == Direction::reverse, [&](int64_t t) {
    const Value z = at_time(c.in(0), t) + ops::matmul(h, c.in(1), {false, true});
    hs[static_cast<size_t>(t)] = h = choose(within(c.in(3), t), apply((*act)[0], z), h);
  });
  c.set(0, stack(hs));
}

void decompose_grad(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const auto act = activations_of(attrs, kDefaults);
  if (!act.ok()) return c.fail(act.status().message());
  const Shape y = c.shape(0);
  Value dh = ops::fill(c.b, {c.type(0).dtype, {y[1], y[2]}}, 0);
  std::vector<Value> rows(static_cast<size_t>(y[0]));
  for_steps(y[0], attrs.direction != Direction::reverse, [&](int64_t t) {
    dh = dh + at_time(c.in(2), t);
    const Value mask = within(c.in(3), t);
    const Value dz = dh * slope((*act)[0], at_time(c.in(0), t));
    const Value kept = choose(mask, dz, ops::zeros_like(dz));
    rows[static_cast<size_t>(t)] = kept;
    dh = choose(mask, ops::matmul(kept, c.in(1)), dh);
  });
  c.set(0, stack(rows));
  c.set(1, dh);
}

void grad_of_cells(GradCtx& c) {
  const bool reverse = c.attrs<RecurrentAttrs>().direction == Direction::reverse;
  const Value in[] = {c.out(0), c.in(1), c.out_grad(0), c.in(3)};
  const std::vector<Value> g = c.b.emit_all(op::rnn_cells_grad, in, c.raw_attrs());
  if (g.empty()) return;
  c.set(0, g[0]);
  c.set(2, g[1]);
  if (!c.needs(1)) return;
  const Shape s = g[0].shape();
  const Shape flat = {s[0] * s[1], s[2]};
  const Value before = ops::reshape(previous(c.out(0), c.in(2), reverse), flat);
  c.set(1, ops::matmul(ops::reshape(g[0], flat), before, {true, false}));
}

}  // namespace

Status run_rnn_cells(const KernelArgs& args, ProductFn<float> product,
                     const FloatActivations& fast) {
  return forward<float>(args, product, &fast);
}
Status run_rnn_cells_grad(const KernelArgs& args, ProductFn<float> product,
                          const FloatActivations& fast) {
  return backward<float>(args, product, &fast);
}

// rnn_cells(x, r, h0, lengths?): the loop over time in one direction, where x is the product of the
// inputs with their weight, biases added. Past the end of a sequence the state stays as it is.
// (T, B, H), (H, H), (B, H), (B) -> h of each step (T, B, H)
const OpDef op::rnn_cells = {
    .name = "rnn_cells",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need_cells(c, 3));
      HONE_TRY(need_shape(c, 2, "the initial state", {c.shape(0)[1], c.shape(0)[2]}));
      c.out(c.in(0));
      return {};
    },
    .decompose = decompose_cells,
    .diff = Diff::rule,
    .grad = grad_of_cells,
    .kernel = [](const KernelArgs& args) -> Status {
      return dispatch_float(args.in[0].type.dtype,
                            [&]<class T>() { return forward<T>(args, plain_product<wide_t<T>>); });
    },
    .scratch = cell_scratch,
    .flops = cell_flops,
    .inplace = Inplace::pairwise,
};

// rnn_cells_grad(h, r, gh, lengths?): the gradients of x and h0.
const OpDef op::rnn_cells_grad = {
    .name = "rnn_cells_grad",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need_cells(c, 3));
      HONE_TRY(need_shape(c, 2, "the states' gradient", c.shape(0)));
      c.out(c.in(0));
      c.out(c.dtype(0), {c.shape(0)[1], c.shape(0)[2]});
      return {};
    },
    .decompose = decompose_grad,
    .diff = Diff::by_decomposition,
    .kernel = [](const KernelArgs& args) -> Status {
      return dispatch_float(args.in[0].type.dtype,
                            [&]<class T>() { return backward<T>(args, plain_product<wide_t<T>>); });
    },
    .scratch = cell_scratch,
    .flops = cell_flops,
};

}  // namespace hone
