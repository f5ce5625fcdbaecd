// SPDX-License-Identifier: Apache-2.0
// LSTM's loop over time and its gradient (Hochreiter & Schmidhuber 1997; peepholes: Gers 2000).
//
// The products with the inputs of all steps are one matmul outside; what is left for each step is
// the product with the state. The gates are kept, over the bytes of those products, so that the
// gradient computes nothing of the forward pass again. Past the end of a sequence the state stays
// as it is and the gates are zero.
#include "core/ops/recurrent.hpp"

namespace hone {

namespace {

using namespace recurrent;

constexpr std::string_view kDefaults = "sigmoid,tanh,tanh";

struct Extents {
  int64_t steps, batch, hidden;
  int64_t state() const { return batch * hidden; }
  int64_t gates() const { return 4 * batch * hidden; }
};
Extents extents_of(const Shape& gates, const Shape& r) { return {gates[0], gates[1], r[1]}; }

Status need_cells(const InferCtx& c, int r, int state, int lengths, int peepholes) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank(c, 0, 3));
  HONE_TRY(need_rank(c, r, 2));
  const int64_t batch = c.shape(0)[1], hidden = c.shape(r)[1];
  HONE_TRY(need_shape(c, r, "the recurrent weight", {4 * hidden, hidden}));
  HONE_TRY(need_shape(c, 0, "the gates' input", {c.shape(0)[0], batch, 4 * hidden}));
  HONE_TRY(need_shape(c, state, "the initial cell state", {batch, hidden}));
  HONE_TRY(need_lengths(c, lengths, batch));
  HONE_TRY(need_shape(c, peepholes, "the peephole weight", {3 * hidden}));
  const auto acts = activations_of(c.attrs<RecurrentAttrs>(), kDefaults);
  return acts.ok() ? Status() : acts.status().with_context(c.who());
}

Status infer_cells(InferCtx& c) {
  HONE_TRY(need_cells(c, 1, 3, 4, 5));
  const Extents e = extents_of(c.shape(0), c.shape(1));
  HONE_TRY(need_shape(c, 2, "the initial state", {e.batch, e.hidden}));
  c.out(c.in(0));
  c.out(c.dtype(0), {e.steps, e.batch, e.hidden});
  c.out(c.dtype(0), {e.steps, e.batch, e.hidden});
  return {};
}

// One sequence's step. z holds what the products gave and becomes the gates i, o, f, g.
template <class S>
void step_forward(S* z, S* h, S* c, S* tmp, const S* p, int64_t n, const Activations& act,
                  bool input_forget) {
  S *i = z, *o = z + n, *f = z + 2 * n, *g = z + 3 * n;
  if (p)
    for (int64_t k = 0; k < n; ++k) i[k] += p[k] * c[k], f[k] += p[2 * n + k] * c[k];
  apply(act[0], i, n);
  if (input_forget)
    for (int64_t k = 0; k < n; ++k) f[k] = S(1) - i[k];
  else
    apply(act[0], f, n);
  apply(act[1], g, n);
  for (int64_t k = 0; k < n; ++k) tmp[k] = c[k] = f[k] * c[k] + i[k] * g[k];
  if (p)
    for (int64_t k = 0; k < n; ++k) o[k] += p[n + k] * c[k];
  apply(act[0], o, n);
  apply(act[2], tmp, n);
  for (int64_t k = 0; k < n; ++k) h[k] = o[k] * tmp[k];
}

template <class T>
Status forward(const KernelArgs& args, ProductFn<wide_t<T>> product,
               const FloatActivations* fast = nullptr) {
  using S = wide_t<T>;
  const RecurrentAttrs& attrs = args.attrs.as<RecurrentAttrs>();
  HONE_ASSIGN(Activations act, activations_of(attrs, kDefaults));
  use(fast, act);
  const Extents e = extents_of(args.shape(0), args.shape(1));
  const int64_t n = e.hidden;
  const Lengths lengths(args, 4);
  Scratch scratch(args.scratch);
  S *z = scratch.take<S>(e.gates()), *h = scratch.take<S>(e.state()),
    *c = scratch.take<S>(e.state()), *tmp = scratch.take<S>(e.state()),
    *p = args.has(5) ? scratch.take<S>(3 * n) : nullptr;
  const S* r = transposed<S>(args.input<T>(1), 4 * n, n, scratch);
  load(args.input<T>(2), h, e.state());
  load(args.input<T>(3), c, e.state());
  if (p) load(args.input<T>(5), p, 3 * n);
  for_steps(e.steps, attrs.direction == Direction::reverse, [&](int64_t t) {
    const T* x = args.input<T>(0) + t * e.gates();
    T *gates = args.output<T>(0) + t * e.gates(), *hs = args.output<T>(1) + t * e.state(),
      *cs = args.output<T>(2) + t * e.state();
    product({e.batch, 4 * n, n, h, n, r, 4 * n, false, z, 4 * n, false});
    for_rows(args.pool, e.batch, 4 * n, [&](int64_t b) {
      S* zb = z + b * 4 * n;
      if (lengths.active(t, b)) {
        for (int64_t k = 0; k < 4 * n; ++k) zb[k] += static_cast<S>(x[b * 4 * n + k]);
        step_forward(zb, h + b * n, c + b * n, tmp + b * n, p, n, act, attrs.input_forget);
      } else {
        std::fill_n(zb, 4 * n, S(0));
      }
      store(zb, gates + b * 4 * n, 4 * n);
      store(h + b * n, hs + b * n, n);
      store(c + b * n, cs + b * n, n);
    });
  });
  return {};
}

int64_t forward_scratch(const NodeTypes& t) {
  const Extents e = extents_of(t.in[0]->shape, t.in[1]->shape);
  const DType d = t.in[0]->dtype;
  return piece(e.gates(), d) + 3 * piece(e.state(), d) + piece(3 * e.hidden, d) +
         piece(4 * e.hidden * e.hidden, d);
}

// ---- the gradient

// (gates, c, r, c0, gh, lengths?, p?, gc?, gg?) -> (gz, gh0, gc0)
Status infer_grad(InferCtx& c) {
  HONE_TRY(need_cells(c, 2, 3, 5, 6));
  const Extents e = extents_of(c.shape(0), c.shape(2));
  const Shape states = {e.steps, e.batch, e.hidden};
  HONE_TRY(need_shape(c, 1, "the cell states", states));
  HONE_TRY(need_shape(c, 4, "the states' gradient", states));
  HONE_TRY(need_shape(c, 7, "the cell states' gradient", states));
  HONE_TRY(need_shape(c, 8, "the gates' gradient", c.shape(0)));
  c.out(c.in(0));
  c.out(c.dtype(0), {e.batch, e.hidden});
  c.out(c.dtype(0), {e.batch, e.hidden});
  return {};
}

template <class S>
struct GradRow {
  const S *y, *c_prev, *c, *gg;  // gates, cell state before and after; gg may be null
  S *dz, *dh, *dc, *tmp;
};

// One sequence's step backwards: dz becomes the gradient before the activations, dh zero (the
// product adds to it), dc that of the cell state before.
template <class S>
void step_backward(const GradRow<S>& s, const S* p, int64_t n, const Activations& act,
                   bool input_forget) {
  const S *i = s.y, *o = s.y + n, *f = s.y + 2 * n, *g = s.y + 3 * n;
  S *di = s.dz, *d_o = s.dz + n, *df = s.dz + 2 * n, *dg = s.dz + 3 * n;
  S *dhc = s.tmp, *hc = s.tmp + n;
  std::copy_n(s.c, n, hc);
  apply(act[2], hc, n);
  for (int64_t k = 0; k < n; ++k) {
    d_o[k] = s.dh[k] * hc[k] + (s.gg ? s.gg[n + k] : S(0));
    dhc[k] = s.dh[k] * o[k];
    s.dh[k] = 0;
  }
  times_slope(act[0], o, d_o, n);
  times_slope(act[2], hc, dhc, n);
  for (int64_t k = 0; k < n; ++k) {
    const S dc = s.dc[k] + dhc[k] + (p ? d_o[k] * p[n + k] : S(0));
    df[k] = dc * s.c_prev[k] + (s.gg ? s.gg[2 * n + k] : S(0));
    di[k] = dc * g[k] + (s.gg ? s.gg[k] : S(0));
    dg[k] = dc * i[k] + (s.gg ? s.gg[3 * n + k] : S(0));
    s.dc[k] = dc * f[k];
  }
  if (input_forget)
    for (int64_t k = 0; k < n; ++k) di[k] -= df[k], df[k] = 0;
  else
    times_slope(act[0], f, df, n);
  times_slope(act[0], i, di, n);
  times_slope(act[1], g, dg, n);
  if (p)
    for (int64_t k = 0; k < n; ++k) s.dc[k] += di[k] * p[k] + df[k] * p[2 * n + k];
}

template <class T>
struct GradData {
  const T *gates, *c, *c0, *gh, *gc, *gg;
};

template <class T>
Status backward(const KernelArgs& args, ProductFn<wide_t<T>> product,
                const FloatActivations* fast = nullptr) {
  using S = wide_t<T>;
  const RecurrentAttrs& attrs = args.attrs.as<RecurrentAttrs>();
  HONE_ASSIGN(Activations act, activations_of(attrs, kDefaults));
  use(fast, act);
  const Extents e = extents_of(args.shape(0), args.shape(2));
  const int64_t n = e.hidden;
  const Lengths lengths(args, 5);
  Scratch scratch(args.scratch);
  S *dz = scratch.take<S>(e.gates()), *dh = scratch.take<S>(e.state()),
    *dc = scratch.take<S>(e.state()), *rows = scratch.take<S>(12 * e.state()),
    *p = args.has(6) ? scratch.take<S>(3 * n) : nullptr;
  const S* r = widened<S>(args.input<T>(2), 4 * n * n, scratch);
  if (p) load(args.input<T>(6), p, 3 * n);
  std::fill_n(dh, e.state(), S(0));
  std::fill_n(dc, e.state(), S(0));
  const bool reverse = attrs.direction == Direction::reverse;
  for_steps(e.steps, !reverse, [&](int64_t t) {
    const int64_t before = reverse ? t + 1 : t - 1;
    const T* c_prev =
        before < 0 || before >= e.steps ? args.input<T>(3) : args.input<T>(1) + before * e.state();
    for_rows(args.pool, e.batch, 4 * n, [&](int64_t b) {
      const int64_t gates = t * e.gates() + b * 4 * n, state = t * e.state() + b * n;
      S *row = rows + b * 12 * n, *dhb = dh + b * n, *dcb = dc + b * n, *dzb = dz + b * 4 * n;
      for (int64_t k = 0; k < n; ++k) dhb[k] += static_cast<S>(args.input<T>(4)[state + k]);
      if (args.has(7))
        for (int64_t k = 0; k < n; ++k) dcb[k] += static_cast<S>(args.input<T>(7)[state + k]);
      if (lengths.active(t, b)) {
        S *y = row, *before_c = row + 4 * n, *after_c = row + 5 * n, *gg = row + 6 * n;
        load(args.input<T>(0) + gates, y, 4 * n);
        load(c_prev + b * n, before_c, n);
        load(args.input<T>(1) + state, after_c, n);
        if (args.has(8)) load(args.input<T>(8) + gates, gg, 4 * n);
        step_backward<S>(
            {y, before_c, after_c, args.has(8) ? gg : nullptr, dzb, dhb, dcb, row + 10 * n}, p, n,
            act, attrs.input_forget);
      } else {
        std::fill_n(dzb, 4 * n, S(0));
      }
      store(dzb, args.output<T>(0) + gates, 4 * n);
    });
    product({e.batch, n, 4 * n, dz, 4 * n, r, n, false, dh, n, true});
  });
  store(dh, args.output<T>(1), e.state());
  store(dc, args.output<T>(2), e.state());
  return {};
}

int64_t backward_scratch(const NodeTypes& t) {
  const Extents e = extents_of(t.in[0]->shape, t.in[2]->shape);
  const DType d = t.in[0]->dtype;
  return piece(e.gates(), d) + 2 * piece(e.state(), d) + piece(12 * e.state(), d) +
         piece(3 * e.hidden, d) + widened_bytes(4 * e.hidden * e.hidden, d);
}

double cell_flops(const NodeTypes& t) {
  const Shape& s = t.in[0]->shape;
  return 2.0 * static_cast<double>(s.numel()) * static_cast<double>(s[2]) / 4;
}

// ---- as nodes

Value part(Value x, int64_t index, int64_t n) {
  return ops::slice(x, -1, index * n, (index + 1) * n);
}

void decompose_cells(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const auto act = activations_of(attrs, kDefaults);
  if (!act.ok()) return c.fail(act.status().message());
  const Extents e = extents_of(c.shape(0), c.shape(1));
  const int64_t n = e.hidden;
  Value h = c.in(2), state = c.in(3);
  std::vector<Value> gates(static_cast<size_t>(e.steps)), hs = gates, cs = gates;
  const auto peep = [&](int64_t k, Value of) { return of * part(c.in(5), k, n); };
  for_steps(e.steps, attrs.direction == Direction::reverse, [&](int64_t t) {
    const Value z = at_time(c.in(0), t) + ops::matmul(h, c.in(1), {false, true});
    Value zi = part(z, 0, n), zo = part(z, 1, n), zf = part(z, 2, n);
    if (c.has(5)) zi = zi + peep(0, state), zf = zf + peep(2, state);
    const Value i = apply((*act)[0], zi);
    const Value f = attrs.input_forget ? 1.0 - i : apply((*act)[0], zf);
    const Value g = apply((*act)[1], part(z, 3, n));
    const Value next = f * state + i * g;
    if (c.has(5)) zo = zo + peep(1, next);
    const Value o = apply((*act)[0], zo);
    const Value mask = within(c.in(4), t);
    const Value all[] = {i, o, f, g};
    const Value y = ops::concat(all, -1);
    const size_t at = static_cast<size_t>(t);
    gates[at] = choose(mask, y, ops::zeros_like(y));
    hs[at] = h = choose(mask, o * apply((*act)[2], next), h);
    cs[at] = state = choose(mask, next, state);
  });
  c.set(0, stack(gates));
  c.set(1, stack(hs));
  c.set(2, stack(cs));
}

void decompose_grad(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const auto acts = activations_of(attrs, kDefaults);
  if (!acts.ok()) return c.fail(acts.status().message());
  const Activations& act = *acts;
  const Extents e = extents_of(c.shape(0), c.shape(2));
  const int64_t n = e.hidden;
  const bool reverse = attrs.direction == Direction::reverse;
  const Value c_prev_all = previous(c.in(1), c.in(3), reverse);
  Value dh = ops::zeros_like(c.in(3)), dc = dh;
  std::vector<Value> dz(static_cast<size_t>(e.steps));
  const auto peep = [&](int64_t k, Value of) { return of * part(c.in(6), k, n); };
  for_steps(e.steps, !reverse, [&](int64_t t) {
    const Value y = at_time(c.in(0), t), gg = at_time(c.in(8), t);
    const Value i = part(y, 0, n), o = part(y, 1, n), f = part(y, 2, n), g = part(y, 3, n);
    const auto extra = [&](Value d, int64_t k) { return gg.valid() ? d + part(gg, k, n) : d; };
    dh = dh + at_time(c.in(4), t);
    if (c.has(7)) dc = dc + at_time(c.in(7), t);
    const Value hc = apply(act[2], at_time(c.in(1), t));
    const Value d_o = extra(dh * hc, 1) * slope(act[0], o);
    Value d = dc + dh * o * slope(act[2], hc);
    if (c.has(6)) d = d + peep(1, d_o);
    Value df = extra(d * at_time(c_prev_all, t), 2), di = extra(d * g, 0);
    if (attrs.input_forget)
      di = di - df, df = ops::zeros_like(df);
    else
      df = df * slope(act[0], f);
    di = di * slope(act[0], i);
    const Value dg = extra(d * i, 3) * slope(act[1], g);
    Value next = d * f;
    if (c.has(6)) next = next + peep(0, di) + peep(2, df);
    const Value mask = within(c.in(5), t);
    const Value all[] = {di, d_o, df, dg};
    const Value row = ops::concat(all, -1);
    const Value kept = choose(mask, row, ops::zeros_like(row));
    dz[static_cast<size_t>(t)] = kept;
    dh = choose(mask, ops::matmul(kept, c.in(2)), dh);
    dc = choose(mask, next, dc);
  });
  c.set(0, stack(dz));
  c.set(1, dh);
  c.set(2, dc);
}

void grad_of_cells(GradCtx& c) {
  const bool reverse = c.attrs<RecurrentAttrs>().direction == Direction::reverse;
  const Value r = c.in(1);
  const Extents e = extents_of(c.shape(0), r.shape());
  const int64_t n = e.hidden;
  const Value optional_gc = c.has_out_grad(2) ? c.out_grad(2) : Value();
  const Value optional_gg = c.has_out_grad(0) ? c.out_grad(0) : Value();
  const Value in[] = {c.out(0), c.out(2), r,           c.in(3),    c.out_grad(1),
                      c.in(4),  c.in(5),  optional_gc, optional_gg};
  const std::vector<Value> g = c.b.emit_all(op::lstm_cells_grad, in, c.raw_attrs());
  if (g.empty()) return;
  c.set(0, g[0]);
  c.set(2, g[1]);
  c.set(3, g[2]);
  const int64_t rows = e.steps * e.batch;
  if (c.needs(1)) {
    const Value h = ops::reshape(previous(c.out(1), c.in(2), reverse), {rows, n});
    c.set(1, ops::matmul(ops::reshape(g[0], {rows, 4 * n}), h, {true, false}));
  }
  if (!c.has(5) || !c.needs(5)) return;
  const Value before = previous(c.out(2), c.in(3), reverse);
  const Value parts[] = {part(g[0], 0, n) * before, part(g[0], 1, n) * c.out(2),
                         part(g[0], 2, n) * before};
  c.set(5, ops::sum(ops::concat(parts, -1), {{0, 1}, false}));
}

}  // namespace

Status run_lstm_cells(const KernelArgs& args, ProductFn<float> product,
                      const FloatActivations& fast) {
  return forward<float>(args, product, &fast);
}
Status run_lstm_cells_grad(const KernelArgs& args, ProductFn<float> product,
                           const FloatActivations& fast) {
  return backward<float>(args, product, &fast);
}

// lstm_cells(x, r, h0, c0, lengths?, p?): LSTM over time in one direction, where x is the product
// of the inputs with their weight, biases added.   (T, B, 4H), (4H, H), (B, H), (B, H), (B), (3H)
// -> gates i, o, f, g after their activations (T, B, 4H), h and c of each step (T, B, H)
const OpDef op::lstm_cells = {
    .name = "lstm_cells",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 4,
    .max_inputs = 6,
    .infer = infer_cells,
    .decompose = decompose_cells,
    .diff = Diff::rule,
    .grad = grad_of_cells,
    .kernel = [](const KernelArgs& args) -> Status {
      return dispatch_float(args.in[0].type.dtype,
                            [&]<class T>() { return forward<T>(args, plain_product<wide_t<T>>); });
    },
    .scratch = forward_scratch,
    .flops = cell_flops,
    .inplace = Inplace::pairwise,
};

// lstm_cells_grad(gates, c, r, c0, gh, lengths?, p?, gc?, gg?): the gradients of x, h0 and c0.
const OpDef op::lstm_cells_grad = {
    .name = "lstm_cells_grad",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 5,
    .max_inputs = 9,
    .infer = infer_grad,
    .decompose = decompose_grad,
    .diff = Diff::by_decomposition,
    .kernel = [](const KernelArgs& args) -> Status {
      return dispatch_float(args.in[0].type.dtype,
                            [&]<class T>() { return backward<T>(args, plain_product<wide_t<T>>); });
    },
    .scratch = backward_scratch,
    .flops = cell_flops,
};

}  // namespace hone
