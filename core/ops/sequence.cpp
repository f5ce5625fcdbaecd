// SPDX-License-Identifier: Apache-2.0
// reverse_sequence(x, lengths): sequences of different lengths in one tensor, each turned round.
#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

int resolved(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

Status infer_reverse(InferCtx& c) {
  const ReverseSequenceAttrs& attrs = c.attrs<ReverseSequenceAttrs>();
  HONE_TRY(need(c, 1, Accepts::indices));
  HONE_ASSIGN(const int batch, need_axis(c, 0, attrs.batch_axis));
  HONE_ASSIGN(const int time, need_axis(c, 0, attrs.time_axis));
  if (batch == time) return c.error("batch_axis and time_axis are both {}", batch);
  if (c.shape(1) != Shape{c.shape(0)[batch]})
    return c.error("input 1 is {}, expected a length for each of {} sequences", c.in(1),
                   c.shape(0)[batch]);
  c.out(c.in(0));
  return {};
}

int64_t length_at(const ConstTensorView& lengths, int64_t i) {
  return lengths.type.dtype == DType::i64 ? lengths.as<int64_t>()[i] : lengths.as<int32_t>()[i];
}

Status reverse_kernel(const KernelArgs& args) {
  const ReverseSequenceAttrs& attrs = args.attrs.as<ReverseSequenceAttrs>();
  const Shape& x = args.shape(0);
  const int batch = resolved(attrs.batch_axis, x.rank()),
            time = resolved(attrs.time_axis, x.rank());
  for (int64_t i = 0; i < x[batch]; ++i)
    if (const int64_t n = length_at(args.in[1], i); n < 0 || n > x[time])
      return invalid("reverse_sequence: length {} of sequence {} is not in 0 to {}", n, i, x[time]);
  const Shape strides = strides_of(x);
  const int64_t count = x.numel();
  dispatch_size(size_of(args.out[0].type.dtype), [&]<class T>() {
    const T* from = static_cast<const T*>(args.in[0].data);
    T* to = static_cast<T*>(args.out[0].data);
    for_ranges(args.pool, count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t t = i / strides[time] % x[time];
        const int64_t n = length_at(args.in[1], i / strides[batch] % x[batch]);
        to[i] = from[t < n ? i + (n - 1 - 2 * t) * strides[time] : i];
      }
    });
  });
  return {};
}

}  // namespace

// Turned round again it is as it was: the operator is its own adjoint.
constinit const OpDef op::reverse_sequence = {
    .name = "reverse_sequence",
    .attrs = &kAttrSchema<ReverseSequenceAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_reverse,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::reverse_sequence, {c.out_grad(0), c.in(1)}, c.raw_attrs()));
        },
    .kernel = reverse_kernel,
    .flops = no_flops,
};

}  // namespace hone
