// SPDX-License-Identifier: Apache-2.0
// Functions of tensors: operators, their training forms, and formulas shared with graphs.
#include "hone/functional.hpp"

#include <cmath>

#include "core/runtime/eager_engine.hpp"
#include "core/runtime/running_builder.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// Runs what an operator becomes in a training graph. States that it updates are inputs `states` and
// up, written in place; random ones draw from `rng`.
Tensor run_training(const OpDef& op, std::vector<Tensor> inputs, size_t states, Attrs attrs,
                    Generator* rng) {
  RunningBuilder b;
  std::vector<ValueId> ids;
  std::vector<const TensorType*> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (Status s = detail::operand_status(op.name, static_cast<int>(i), inputs[i]); !s.ok())
      return Tensor::error(std::move(s));
    ids.push_back(
        (i < states ? b.add(inputs[i]) : b.add_state(StateRole::buffer, inputs[i], {})).id());
    types.push_back(&inputs[i].type());
  }
  // A training form takes for granted what the operator's shape rule checks.
  auto outs = infer(op, b.scope(), types, std::vector<const TensorData*>(types.size()), attrs);
  if (!outs.ok()) return Tensor::error(outs.status());
  if (rng) {
    const int64_t state[] = {static_cast<int64_t>(rng->seed()), static_cast<int64_t>(rng->next())};
    (void)b.add_state(StateRole::rng, detail::make_tensor(TensorData::vector_of<int64_t>(state)),
                      {});
  }
  TrainingCtx c(b, ids, attrs, outs->size(), std::string(op.name));
  op.training(c);
  Tensor result = b.tensor(c.outs[0]);
  NoGrad no_grad;
  for (const StateUpdate& u : b.graph().updates)
    for (size_t i = states; i < ids.size() && result.ok(); ++i)
      if (ids[i] == u.state) inputs[i].copy_(b.tensor({&b, u.next}).detach(), {});
  return result;
}

Tensor or_full(const Tensor& given, const Tensor& x, int axis, double value) {
  return given.defined() || !x.ok() ? given : Tensor::full({x.size(axis)}, value, x.dtype());
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulAttrs attrs) {
  return apply(op::matmul, {a, b}, attrs);
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  if (b.defined() && x.dim() == 2) return apply(op::gemm, {x, w, b}, GemmAttrs{1, 1, false, true});
  const Tensor y = matmul(x, w, {false, true});
  return b.defined() ? y + b : y;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply(op::where, {condition, a, b});
}

Tensor concat(std::span<const Tensor> parts, int64_t axis) {
  if (parts.empty()) return Tensor::error(invalid("concat: there is nothing to join"));
  return apply_all(op::concat, parts, AxisAttrs{axis})[0];
}

Tensor stack(std::span<const Tensor> parts, int64_t axis) {
  std::vector<Tensor> wide;
  for (const Tensor& t : parts) wide.push_back(t.unsqueeze(axis));
  return concat(wide, axis);
}

Tensor pad(const Tensor& x, PadAttrs attrs) { return apply(op::pad, {x}, std::move(attrs)); }

Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype) {
  return indices.unsqueeze(-1)
      .eq(Tensor::arange(0, static_cast<double>(classes), 1, indices.dtype()))
      .to(dtype);
}

Tensor embedding(const Tensor& indices, const Tensor& weight) {
  return weight.index_select(0, indices);
}

Tensor conv(const Tensor& x, const Tensor& w, const Tensor& b, ConvAttrs attrs) {
  return apply(op::conv, {x, w, b}, std::move(attrs));
}
Tensor conv_transpose(const Tensor& x, const Tensor& w, const Tensor& b, ConvTransposeAttrs attrs) {
  return apply(op::conv_transpose, {x, w, b}, std::move(attrs));
}
Tensor max_pool(const Tensor& x, PoolAttrs attrs) {
  return apply(op::max_pool, {x}, std::move(attrs));
}
Tensor avg_pool(const Tensor& x, PoolAttrs attrs) {
  return apply(op::avg_pool, {x}, std::move(attrs));
}
Tensor global_avg_pool(const Tensor& x) { return apply(op::global_avg_pool, {x}); }

namespace {

// Row i holds the weights of the window that makes output i.   -> (outputs, extent)
Tensor averaging_matrix(int64_t outputs, int64_t extent, DType dtype) {
  std::vector<double> weights(static_cast<size_t>(outputs * extent));
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t from = i * extent / outputs, to = ((i + 1) * extent + outputs - 1) / outputs;
    for (int64_t k = from; k < to; ++k)
      weights[static_cast<size_t>(i * extent + k)] = 1.0 / static_cast<double>(to - from);
  }
  return Tensor::from(weights, {outputs, extent}).to(dtype);
}

}  // namespace

// The mean over a box is the mean over one axis after the other. Where windows are equal and lie
// side by side they are an ordinary pooling; else each axis is a product with a matrix.
Tensor adaptive_avg_pool(const Tensor& x, std::span<const int64_t> extents) {
  if (!x.ok()) return apply(op::global_avg_pool, {x});
  const int spatial = static_cast<int>(extents.size());
  if (x.dim() != spatial + 2)
    return Tensor::error(invalid("adaptive_avg_pool: {} extents for {}, which has {} spatial axes",
                                 spatial, x.type(), x.dim() - 2));
  PoolAttrs attrs;
  bool even = true, one = true;
  for (int i = 0; i < spatial; ++i) {
    const int64_t to = extents[static_cast<size_t>(i)], from = x.size(i + 2);
    if (to < 1 || from < 1)
      return Tensor::error(
          invalid("adaptive_avg_pool: axis {} of {} cannot become {}", i + 2, x.type(), to));
    even = even && from % to == 0;
    one = one && to == 1;
    attrs.kernel.push_back(from / to);
  }
  if (one) return global_avg_pool(x);
  attrs.strides = attrs.kernel;
  if (even) return avg_pool(x, attrs);
  Tensor y = x;
  for (int i = 0; i < spatial; ++i) {
    const Tensor weights =
        averaging_matrix(extents[static_cast<size_t>(i)], x.size(i + 2), x.dtype());
    y = matmul(y.transpose(i + 2, -1), weights, {false, true}).transpose(i + 2, -1);
  }
  return y;
}

Tensor resize(const Tensor& x, ResizeAttrs attrs) {
  return apply(op::resize, {x}, std::move(attrs));
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, NormAttrs attrs) {
  return apply(op::layer_norm, {x, scale, bias}, attrs);
}
Tensor group_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, GroupNormAttrs attrs) {
  return apply(op::group_norm, {x, or_full(scale, x, 1, 1), or_full(bias, x, 1, 0)}, attrs);
}
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, const Tensor& mean,
                  const Tensor& var, BatchNormAttrs attrs) {
  return apply(op::batch_norm, {x, or_full(scale, x, 1, 1), or_full(bias, x, 1, 0), mean, var},
               attrs);
}
Tensor batch_norm_train(const Tensor& x, const Tensor& scale, const Tensor& bias, Tensor& mean,
                        Tensor& var, BatchNormAttrs attrs) {
  if (is_tracing()) return batch_norm(x, scale, bias, mean, var, attrs);
  return run_training(op::batch_norm,
                      {x, or_full(scale, x, 1, 1), or_full(bias, x, 1, 0), mean, var}, 3, attrs,
                      nullptr);
}
Tensor dropout(const Tensor& x, double p, Generator& rng) {
  if (is_tracing()) return apply(op::dropout, {x}, DropoutAttrs{p, 0});
  return run_training(op::dropout, {x}, 1, DropoutAttrs{p, 0}, &rng);
}

namespace {

// True at and below the diagonal. In a trace it is made from the shapes of q and k, so that their
// lengths stay free.
Tensor causal_mask(const Tensor& q, const Tensor& k) {
  if (!is_tracing()) return Tensor::ones({q.size(-2), k.size(-2)}).tril().gt(0.5);
  const ShapeOfAttrs length{-2, -1};
  const Tensor shape =
      concat({apply(op::shape_of, {q}, length), apply(op::shape_of, {k}, length)}, 0);
  return apply(op::fill_dyn, {shape}, FillDynAttrs{DType::f32, 1}).tril().gt(0.5);
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  Tensor scores = matmul(q * (1.0 / std::sqrt(static_cast<double>(q.size(-1)))), k, {false, true});
  const auto restrict_to = [&](const Tensor& mask) {
    scores = mask.dtype() == DType::bool_
                 ? where(mask, scores, Tensor::scalar(-INFINITY, scores.dtype()))
                 : scores + mask;
  };
  if (options.mask.defined()) restrict_to(options.mask);
  if (options.causal && scores.ok()) restrict_to(causal_mask(q, k));
  Tensor weights = scores.softmax(-1);
  if (options.on_weights) weights = options.on_weights(weights);
  return matmul(weights, v);
}

}  // namespace hone
