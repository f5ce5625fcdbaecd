// SPDX-License-Identifier: Apache-2.0
// GRU's loop over time and its gradient (Cho et al. 2014), in both of ONNX's forms: the reset gate
// scales the state before the product, or (linear_before_reset) the product.
#include "core/ops/recurrent.hpp"

namespace hone {

namespace {

using namespace recurrent;

constexpr std::string_view kDefaults = "sigmoid,tanh";

struct Extents {
  int64_t steps, batch, hidden;
  int64_t state() const { return batch * hidden; }
  int64_t gates() const { return 3 * batch * hidden; }
};
Extents extents_of(const Shape& gates, const Shape& r) { return {gates[0], gates[1], r[1]}; }

Status need_cells(const InferCtx& c, int r, int lengths) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank(c, 0, 3));
  HONE_TRY(need_rank(c, r, 2));
  const int64_t batch = c.shape(0)[1], hidden = c.shape(r)[1];
  HONE_TRY(need_shape(c, r, "the recurrent weight", {3 * hidden, hidden}));
  HONE_TRY(need_shape(c, 0, "the gates' input", {c.shape(0)[0], batch, 3 * hidden}));
  HONE_TRY(need_lengths(c, lengths, batch));
  const auto acts = activations_of(c.attrs<RecurrentAttrs>(), kDefaults);
  return acts.ok() ? Status() : acts.status().with_context(c.who());
}

Status infer_cells(InferCtx& c) {
  HONE_TRY(need_cells(c, 1, 3));
  const Extents e = extents_of(c.shape(0), c.shape(1));
  HONE_TRY(need_shape(c, 2, "the initial state", {e.batch, e.hidden}));
  HONE_TRY(need_shape(c, 4, "the recurrent bias", {e.hidden}));
  if (c.has(4) && !c.attrs<RecurrentAttrs>().linear_before_reset)
    return c.error("takes a recurrent bias with linear_before_reset only");
  c.out(c.in(0));
  c.out(c.dtype(0), {e.steps, e.batch, e.hidden});
  return {};
}

template <class T>
Status forward(const KernelArgs& args, ProductFn<wide_t<T>> product,
               const FloatActivations* fast = nullptr) {
  using S = wide_t<T>;
  const RecurrentAttrs& attrs = args.attrs.as<RecurrentAttrs>();
  const bool linear = attrs.linear_before_reset;
  HONE_ASSIGN(Activations act, activations_of(attrs, kDefaults));
  use(fast, act);
  const Extents e = extents_of(args.shape(0), args.shape(1));
  const int64_t n = e.hidden;
  const Lengths lengths(args, 3);
  Scratch scratch(args.scratch);
  S *z = scratch.take<S>(e.gates()), *h = scratch.take<S>(e.state()),
    *rh = scratch.take<S>(e.state()), *rb = scratch.take<S>(n);
  const S* r = transposed<S>(args.input<T>(1), 3 * n, n, scratch);
  load(args.input<T>(2), h, e.state());
  std::fill_n(rb, n, S(0));
  if (args.has(4)) load(args.input<T>(4), rb, n);
  for_steps(e.steps, attrs.direction == Direction::reverse, [&](int64_t t) {
    const T* x = args.input<T>(0) + t * e.gates();
    T *gates = args.output<T>(0) + t * e.gates(), *hs = args.output<T>(1) + t * e.state();
    product({e.batch, linear ? 3 * n : 2 * n, n, h, n, r, 3 * n, false, z, 3 * n, false});
    for_rows(args.pool, e.batch, 3 * n, [&](int64_t b) {
      S *zb = z + b * 3 * n, *hb = h + b * n;
      for (int64_t k = 0; k < 2 * n; ++k) zb[k] += static_cast<S>(x[b * 3 * n + k]);
      apply(act[0], zb, 2 * n);
      for (int64_t k = 0; k < n; ++k)
        rh[b * n + k] = zb[n + k] * (linear ? zb[2 * n + k] + rb[k] : hb[k]);
    });
    if (!linear) product({e.batch, n, n, rh, n, r + 2 * n, 3 * n, false, z + 2 * n, 3 * n, false});
    for_rows(args.pool, e.batch, 3 * n, [&](int64_t b) {
      S *zb = z + b * 3 * n, *hb = h + b * n, *candidate = zb + 2 * n;
      if (lengths.active(t, b)) {
        for (int64_t k = 0; k < n; ++k)
          candidate[k] =
              (linear ? rh[b * n + k] : candidate[k]) + static_cast<S>(x[b * 3 * n + 2 * n + k]);
        apply(act[1], candidate, n);
        for (int64_t k = 0; k < n; ++k) hb[k] = (S(1) - zb[k]) * candidate[k] + zb[k] * hb[k];
      } else {
        std::fill_n(zb, 3 * n, S(0));
      }
      store(zb, gates + b * 3 * n, 3 * n);
      store(hb, hs + b * n, n);
    });
  });
  return {};
}

int64_t forward_scratch(const NodeTypes& t) {
  const Extents e = extents_of(t.in[0]->shape, t.in[1]->shape);
  const DType d = t.in[0]->dtype;
  return piece(e.gates(), d) + 2 * piece(e.state(), d) + piece(e.hidden, d) +
         piece(3 * e.hidden * e.hidden, d);
}

// ---- the gradient

// (gates, h_prev, r, gh, hn?, lengths?, gg?) -> (gz, gh0); hn is what the reset gate scales under
// linear_before_reset.
Status infer_grad(InferCtx& c) {
  HONE_TRY(need_cells(c, 2, 5));
  const Extents e = extents_of(c.shape(0), c.shape(2));
  const Shape states = {e.steps, e.batch, e.hidden};
  HONE_TRY(need_shape(c, 1, "the states before", states));
  HONE_TRY(need_shape(c, 3, "the states' gradient", states));
  HONE_TRY(need_shape(c, 4, "the state's product", states));
  HONE_TRY(need_shape(c, 6, "the gates' gradient", c.shape(0)));
  if (c.has(4) != c.attrs<RecurrentAttrs>().linear_before_reset)
    return c.error("takes the state's product with linear_before_reset, and only then");
  c.out(c.in(0));
  c.out(c.dtype(0), {e.batch, e.hidden});
  return {};
}

template <class T>
Status backward(const KernelArgs& args, ProductFn<wide_t<T>> product,
                const FloatActivations* fast = nullptr) {
  using S = wide_t<T>;
  const RecurrentAttrs& attrs = args.attrs.as<RecurrentAttrs>();
  const bool linear = attrs.linear_before_reset;
  HONE_ASSIGN(Activations act, activations_of(attrs, kDefaults));
  use(fast, act);
  const Extents e = extents_of(args.shape(0), args.shape(2));
  const int64_t n = e.hidden;
  const Lengths lengths(args, 5);
  Scratch scratch(args.scratch);
  // w: what is multiplied by r, (dz, dr, dn * r) or (dz, dr, dn); d: the gates' gradients.
  S *w = scratch.take<S>(e.gates()), *dh = scratch.take<S>(e.state()),
    *drh = scratch.take<S>(e.state()), *y = scratch.take<S>(e.gates()),
    *d = scratch.take<S>(e.gates());
  const S* r = widened<S>(args.input<T>(2), 3 * n * n, scratch);
  std::fill_n(dh, e.state(), S(0));
  for_steps(e.steps, attrs.direction != Direction::reverse, [&](int64_t t) {
    const auto extra = [&](int64_t b, int64_t k) {
      return args.has(6) ? static_cast<S>(args.input<T>(6)[t * e.gates() + b * 3 * n + k]) : S(0);
    };
    const auto state_before = [&](int64_t b, int64_t k) {
      return static_cast<S>(args.input<T>(1)[t * e.state() + b * n + k]);
    };
    for_rows(args.pool, e.batch, 3 * n, [&](int64_t b) {
      S *db = d + b * 3 * n, *yb = y + b * 3 * n, *dhb = dh + b * n;
      for (int64_t k = 0; k < n; ++k)
        dhb[k] += static_cast<S>(args.input<T>(3)[t * e.state() + b * n + k]);
      load(args.input<T>(0) + t * e.gates() + b * 3 * n, yb, 3 * n);
      if (lengths.active(t, b)) {
        for (int64_t k = 0; k < n; ++k) {
          db[k] = dhb[k] * (state_before(b, k) - yb[2 * n + k]) + extra(b, k);
          db[2 * n + k] = dhb[k] * (S(1) - yb[k]) + extra(b, 2 * n + k);
        }
        times_slope(act[0], yb, db, n);
        times_slope(act[1], yb + 2 * n, db + 2 * n, n);
      } else {
        std::fill_n(db, 3 * n, S(0));
      }
    });
    if (!linear) product({e.batch, n, n, d + 2 * n, 3 * n, r + 2 * n * n, n, false, drh, n, false});
    for_rows(args.pool, e.batch, 3 * n, [&](int64_t b) {
      S *db = d + b * 3 * n, *yb = y + b * 3 * n, *wb = w + b * 3 * n, *dhb = dh + b * n;
      if (lengths.active(t, b)) {
        for (int64_t k = 0; k < n; ++k) {
          const S reset = yb[n + k], dn = db[2 * n + k];
          const S product_before =
              linear ? static_cast<S>(args.input<T>(4)[t * e.state() + b * n + k]) : S(0);
          db[n + k] = (linear ? dn * product_before : drh[b * n + k] * state_before(b, k)) +
                      extra(b, n + k);
          dhb[k] = dhb[k] * yb[k] + (linear ? S(0) : drh[b * n + k] * reset);
          wb[2 * n + k] = dn * reset;
        }
        times_slope(act[0], yb + n, db + n, n);
      } else {
        std::fill_n(db + n, n, S(0));
        std::fill_n(wb + 2 * n, n, S(0));
      }
      std::copy_n(db, 2 * n, wb);
      store(db, args.output<T>(0) + t * e.gates() + b * 3 * n, 3 * n);
    });
    product({e.batch, n, linear ? 3 * n : 2 * n, w, 3 * n, r, n, false, dh, n, true});
  });
  store(dh, args.output<T>(1), e.state());
  return {};
}

int64_t backward_scratch(const NodeTypes& t) {
  const Extents e = extents_of(t.in[0]->shape, t.in[2]->shape);
  const DType d = t.in[0]->dtype;
  return 3 * piece(e.gates(), d) + 2 * piece(e.state(), d) +
         widened_bytes(3 * e.hidden * e.hidden, d);
}

double cell_flops(const NodeTypes& t) {
  const Shape& s = t.in[0]->shape;
  return 2.0 * static_cast<double>(s.numel()) * static_cast<double>(s[2]) / 3;
}

// ---- as nodes

Value part(Value x, int64_t first, int64_t last, int64_t n) {
  return ops::slice(x, -1, first * n, last * n);
}
Value rows_of(Value r, int64_t first, int64_t last, int64_t n) {
  return ops::slice(r, 0, first * n, last * n);
}

void decompose_cells(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const auto act = activations_of(attrs, kDefaults);
  if (!act.ok()) return c.fail(act.status().message());
  const Extents e = extents_of(c.shape(0), c.shape(1));
  const int64_t n = e.hidden;
  Value h = c.in(2);
  const Value r_gates = rows_of(c.in(1), 0, 2, n), r_new = rows_of(c.in(1), 2, 3, n);
  std::vector<Value> gates(static_cast<size_t>(e.steps)), hs = gates;
  for_steps(e.steps, attrs.direction == Direction::reverse, [&](int64_t t) {
    const Value x = at_time(c.in(0), t);
    const Value zr = apply((*act)[0], part(x, 0, 2, n) + ops::matmul(h, r_gates, {false, true}));
    const Value z = part(zr, 0, 1, n), reset = part(zr, 1, 2, n);
    Value inner;
    if (attrs.linear_before_reset) {
      inner = ops::matmul(h, r_new, {false, true});
      if (c.has(4)) inner = inner + c.in(4);
      inner = reset * inner;
    } else {
      inner = ops::matmul(reset * h, r_new, {false, true});
    }
    const Value candidate = apply((*act)[1], part(x, 2, 3, n) + inner);
    const Value mask = within(c.in(3), t);
    const Value both[] = {zr, candidate};
    const Value y = ops::concat(both, -1);
    const size_t at = static_cast<size_t>(t);
    gates[at] = choose(mask, y, ops::zeros_like(y));
    hs[at] = h = choose(mask, (1.0 - z) * candidate + z * h, h);
  });
  c.set(0, stack(gates));
  c.set(1, stack(hs));
}

void decompose_grad(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const auto act = activations_of(attrs, kDefaults);
  if (!act.ok()) return c.fail(act.status().message());
  const Extents e = extents_of(c.shape(0), c.shape(2));
  const int64_t n = e.hidden;
  const Value r_gates = rows_of(c.in(2), 0, 2, n), r_new = rows_of(c.in(2), 2, 3, n);
  Value dh = ops::fill(c.b, {c.type(0).dtype, {e.batch, n}}, 0);
  std::vector<Value> rows(static_cast<size_t>(e.steps));
  for_steps(e.steps, attrs.direction != Direction::reverse, [&](int64_t t) {
    const Value y = at_time(c.in(0), t), gg = at_time(c.in(6), t), before = at_time(c.in(1), t);
    const Value z = part(y, 0, 1, n), reset = part(y, 1, 2, n), candidate = part(y, 2, 3, n);
    const auto extra = [&](Value d, int64_t k) {
      return gg.valid() ? d + part(gg, k, k + 1, n) : d;
    };
    dh = dh + at_time(c.in(3), t);
    const Value dz = extra(dh * (before - candidate), 0) * slope((*act)[0], z);
    const Value dn = extra(dh * (1.0 - z), 2) * slope((*act)[1], candidate);
    Value dr, next = dh * z;
    if (attrs.linear_before_reset) {
      dr = dn * at_time(c.in(4), t);
      next = next + ops::matmul(dn * reset, r_new);
    } else {
      const Value drh = ops::matmul(dn, r_new);
      dr = drh * before;
      next = next + drh * reset;
    }
    dr = extra(dr, 1) * slope((*act)[0], reset);
    const Value gate_parts[] = {dz, dr};
    next = next + ops::matmul(ops::concat(gate_parts, -1), r_gates);
    const Value all[] = {dz, dr, dn};
    const Value row = ops::concat(all, -1);
    const Value mask = within(c.in(5), t);
    rows[static_cast<size_t>(t)] = choose(mask, row, ops::zeros_like(row));
    dh = choose(mask, next, dh);
  });
  c.set(0, stack(rows));
  c.set(1, dh);
}

void grad_of_cells(GradCtx& c) {
  const RecurrentAttrs attrs = c.attrs<RecurrentAttrs>();
  const Value r = c.in(1);
  const Extents e = extents_of(c.shape(0), r.shape());
  const int64_t n = e.hidden, rows = e.steps * e.batch;
  const Value before = previous(c.out(1), c.in(2), attrs.direction == Direction::reverse);
  Value product;
  if (attrs.linear_before_reset) {
    product = ops::matmul(before, rows_of(r, 2, 3, n), {false, true});
    if (c.has(4)) product = product + c.in(4);
  }
  const Value optional_gg = c.has_out_grad(0) ? c.out_grad(0) : Value();
  const Value in[] = {c.out(0), before, r, c.out_grad(1), product, c.in(3), optional_gg};
  const std::vector<Value> g = c.b.emit_all(op::gru_cells_grad, in, c.raw_attrs());
  if (g.empty()) return;
  c.set(0, g[0]);
  c.set(2, g[1]);
  const Value reset = part(c.out(0), 1, 2, n);
  const Value scaled = part(g[0], 2, 3, n) * reset;
  if (c.has(4)) c.set(4, ops::sum(scaled, {{0, 1}, false}));
  if (!c.needs(1)) return;
  const auto flat = [&](Value v) { return ops::reshape(v, {rows, v.valid() ? v.shape()[2] : 0}); };
  const Value gates = ops::matmul(flat(part(g[0], 0, 2, n)), flat(before), {true, false});
  const Value rest =
      attrs.linear_before_reset
          ? ops::matmul(flat(scaled), flat(before), {true, false})
          : ops::matmul(flat(part(g[0], 2, 3, n)), flat(reset * before), {true, false});
  const Value both[] = {gates, rest};
  c.set(1, ops::concat(both, 0));
}

}  // namespace

Status run_gru_cells(const KernelArgs& args, ProductFn<float> product,
                     const FloatActivations& fast) {
  return forward<float>(args, product, &fast);
}
Status run_gru_cells_grad(const KernelArgs& args, ProductFn<float> product,
                          const FloatActivations& fast) {
  return backward<float>(args, product, &fast);
}

// gru_cells(x, r, h0, lengths?, rb?): GRU over time in one direction, where x is the product of the
// inputs with their weight, biases added (but for rb, the candidate's recurrent bias under
// linear_before_reset).   (T, B, 3H), (3H, H), (B, H), (B), (H) -> gates z, r, n after their
// activations (T, B, 3H), h of each step (T, B, H)
const OpDef op::gru_cells = {
    .name = "gru_cells",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 3,
    .max_inputs = 5,
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

// gru_cells_grad(gates, h_prev, r, gh, hn?, lengths?, gg?): the gradients of x and h0.
const OpDef op::gru_cells_grad = {
    .name = "gru_cells_grad",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 4,
    .max_inputs = 7,
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
