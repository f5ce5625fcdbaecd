// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's operators that pick elements by their indices.
#include "core/import/tflite_ctx.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone::tflite {

namespace {

// Of a table that is stored in whole numbers only the rows that are read become real.
Value gather(ImportCtx& c, int table, int indices, int64_t axis) {
  const AxisAttrs attrs{axis};
  if (!c.is_stored_table(table)) return c.emit(op::gather, {c.in(table), c.whole(indices)}, attrs);
  return c.real(table, c.emit(op::gather, {c.stored(table), c.whole(indices)}, attrs));
}

void import_gather(ImportCtx& c) {
  const auto* o = c.options<schema::GatherOptions>();
  if (!o || !c.require(2)) return;
  if (o->batch_dims() != 0) return c.unsupported("with batch_dims {}", o->batch_dims());
  c.set(0, gather(c, 0, 1, o->axis()));
}

// Inputs: indices, table.
void import_embedding_lookup(ImportCtx& c) {
  if (c.require(2)) c.set(0, gather(c, 1, 0, 0));
}

void import_gather_nd(ImportCtx& c) {
  if (c.require(2)) c.set(0, c.emit(op::gather_nd, {c.in(0), c.indices(1)}, GatherNdAttrs{0}));
}

// Inputs: indices, depth, value on, value off.
void import_one_hot(ImportCtx& c) {
  const auto* o = c.options<schema::OneHotOptions>();
  if (!o || !c.require(4)) return;
  const auto row = [&](int i) { return c.emit(op::reshape, {c.in(i)}, ShapeAttrs{{1}, true}); };
  const Value values[] = {row(3), row(2)};
  const Value off_on = c.b.emit(op::concat, values, AxisAttrs{0});
  c.set(0, c.emit(op::one_hot, {c.whole(0), c.whole(1), off_on}, AxisAttrs{o->axis()}));
}

// Inputs: x, k. Outputs: the values along the last axis, in order, and where they were.
void import_top_k(ImportCtx& c) {
  if (!c.require(2) || c.outputs() != 2) return;
  const Value x = c.in(0);
  const TopKAttrs attrs{c.fixed_int(1, "k"), -1, true, true};
  const std::vector<Value> outs = c.b.emit_all(op::top_k, {&x, 1}, attrs, 2);
  if (outs.size() != 2) return;
  c.set(0, outs[0]);
  c.set(1, c.cast(outs[1], DType::i64, c.out_dtype(1)));
}

void import_reverse_sequence(ImportCtx& c) {
  const auto* o = c.options<schema::ReverseSequenceOptions>();
  if (!o || !c.require(2)) return;
  c.set(0, c.emit(op::reverse_sequence, {c.in(0), c.indices(1)},
                  ReverseSequenceAttrs{o->batch_dim(), o->seq_dim()}));
}

constexpr ImportRule kImports[] = {
    {Builtin::EMBEDDING_LOOKUP, import_embedding_lookup, nullptr, Elements::picked},
    {Builtin::GATHER, import_gather, nullptr, Elements::picked},
    {Builtin::GATHER_ND, import_gather_nd, nullptr, Elements::picked},
    {Builtin::ONE_HOT, import_one_hot},
    {Builtin::REVERSE_SEQUENCE, import_reverse_sequence, nullptr, Elements::picked},
    {Builtin::TOPK_V2, import_top_k, nullptr, Elements::picked},
};

}  // namespace

std::span<const ImportRule> index_imports() { return kImports; }

}  // namespace hone::tflite
