// SPDX-License-Identifier: Apache-2.0
// The orders in which the tensors of a region stand in memory.
#include "backends/cpu/region.hpp"

#include <algorithm>

namespace hone::cpu {

Shape channels_last_shape(const Shape& x) {
  Shape out = x;
  for (int i = 1; i + 1 < x.rank(); ++i) out[i] = x[i + 1];
  out[x.rank() - 1] = x[1];
  return out;
}

bool same_either_way(const Shape& x) { return x[1] == 1 || x.product(2, x.rank()) == 1; }

namespace {

// A few rows, such as colours: whole columns are written one after the other.
template <class T, int kRows>
void interleave(int64_t cols, const T* from, T* to) {
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < kRows; ++r) to[c * kRows + r] = from[r * cols + c];
}

// `count` matrices of rows x cols, each to cols x rows, in blocks that stay in the nearest cache.
template <class T>
void transpose(int64_t count, int64_t rows, int64_t cols, const void* source, void* dest,
               ThreadPool& pool) {
  const T* const from = static_cast<const T*>(source);
  T* const to = static_cast<T*>(dest);
  if (rows >= 2 && rows <= 4) {
    pool.parallel_for(count, 1 + 16384 / (rows * cols), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const T* in = from + i * rows * cols;
        T* out = to + i * rows * cols;
        if (rows == 2) interleave<T, 2>(cols, in, out);
        if (rows == 3) interleave<T, 3>(cols, in, out);
        if (rows == 4) interleave<T, 4>(cols, in, out);
      }
    });
    return;
  }
  constexpr int64_t kBlock = 16, kElements = 16384;
  const int64_t stripes = (cols + kBlock - 1) / kBlock;
  const int64_t grain = std::max<int64_t>(1, kElements / (kBlock * rows));
  pool.parallel_for(count * stripes, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const T* in = from + i / stripes * rows * cols;
      T* out = to + i / stripes * rows * cols;
      const int64_t c0 = i % stripes * kBlock, c1 = std::min(cols, c0 + kBlock);
      for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
        for (int64_t c = c0; c < c1; ++c)
          for (int64_t r = r0, r1 = std::min(rows, r0 + kBlock); r < r1; ++r)
            out[c * rows + r] = in[r * cols + c];
    }
  });
}

// Images are of f32 or bool.
void transpose(DType dtype, int64_t count, int64_t rows, int64_t cols, const void* from, void* to,
               ThreadPool& pool) {
  if (dtype == DType::f32)
    transpose<float>(count, rows, cols, from, to, pool);
  else
    transpose<uint8_t>(count, rows, cols, from, to, pool);
}

class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(DType dtype, int64_t count, int64_t rows, int64_t cols)
      : dtype_(dtype), count_(count), rows_(rows), cols_(cols) {}
  Status run(const StepArgs& args) override {
    transpose(dtype_, count_, rows_, cols_, args.operands[0], args.operands[1], args.pool);
    return {};
  }

 private:
  DType dtype_;
  int64_t count_, rows_, cols_;
};

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(int64_t count) : count_(count) {}
  Status run(const StepArgs& args) override {
    std::copy_n(args.in<float>(0), count_, args.out<float>(1));
    return {};
  }

 private:
  int64_t count_;
};

}  // namespace

void order_channels_last(const Shape& x, const float* from, float* to) {
  transpose<float>(x[0], x[1], x.product(2, x.rank()), from, to, serial_pool());
}

void add_transpose(Lowering& to, BufferId from, BufferId dest, const TensorType& type,
                   bool to_channels_last, NodeId node) {
  const Shape& x = type.shape;
  const int64_t pixels = x.product(2, x.rank());
  Step s;
  s.kernel = to_channels_last ? std::make_unique<TransposeKernel>(type.dtype, x[0], x[1], pixels)
                              : std::make_unique<TransposeKernel>(type.dtype, x[0], pixels, x[1]);
  s.reads = {from};
  s.writes = {dest};
  s.node = node;
  s.kind = "cpu.transpose";
  to.add(std::move(s));
}

Region::Region(Lowering& to, std::span<const NodeId> nodes)
    : to_(to), nodes_(nodes.begin(), nodes.end()) {
  forms_.resize(graph().values.size());
  pointwise_reads_.assign(graph().values.size(), 0);
}

bool Region::has_image(ValueId v) const { return form(v).image != kNone; }
bool Region::only_image(ValueId v) const {
  return (has_image(v) && !form(v).plain) || deferred(v) != nullptr;
}

void Region::defer(ValueId v, const Deferred& how, WriteImage write) {
  unwritten_[v] = {how, write};
}

const Deferred* Region::deferred(ValueId v) const {
  const auto it = unwritten_.find(v);
  return it == unwritten_.end() ? nullptr : &it->second.how;
}

bool Region::only_pointwise_reads(ValueId v) const {
  return to_.uses(v) == pointwise_reads_[static_cast<size_t>(v)];
}

void Region::write_deferred(ValueId v) {
  const auto it = unwritten_.find(v);
  if (it == unwritten_.end()) return;
  const Unwritten u = it->second;
  unwritten_.erase(it);
  u.write(*this, v, u.how);
}

BufferId Region::plain(ValueId v, NodeId reader) {
  if (v == kNone) return kNone;
  const ValueId r = graph().viewed(v);
  write_deferred(r);
  Form& f = form(r);
  if (!f.plain) {
    add_transpose(to_, f.image, to_.of(r), graph().type(r), false, reader);
    f.plain = true;
  }
  return to_.of(v);
}

BufferId Region::image(ValueId v, NodeId reader) { return image(v, graph().type(v), reader); }

BufferId Region::image(ValueId v, const TensorType& as, NodeId reader) {
  write_deferred(v);
  if (has_image(v)) return form(v).image;
  if (same_either_way(as.shape)) return plain(v, reader);
  const BufferId from = plain(v, reader);
  if (to_.is_fixed(v) && to_.packs())
    return to_.packed({&v, 1}, as.bytes(), [as](auto source, void* dest) -> Status {
      const Shape& x = as.shape;
      transpose(as.dtype, x[0], x[1], x.product(2, x.rank()), source[0], dest, serial_pool());
      return {};
    });
  const BufferId made = to_.temporary(as.bytes() + kImageSlack);
  add_transpose(to_, from, made, as, true, reader);
  if (as == graph().type(v)) form(v).image = made;
  return made;
}

BufferId Region::image_with_slack(ValueId v, NodeId reader) {
  const BufferId b = image(v, reader);
  if (has_image(v) && b != to_.of(v)) return b;
  const int64_t count = graph().type(v).numel();
  const BufferId made = to_.temporary(count * 4 + kImageSlack);
  Step s;
  s.kernel = std::make_unique<CopyKernel>(count);
  s.reads = {b};
  s.writes = {made};
  s.node = reader;
  s.kind = "copy";
  to_.add(std::move(s));
  form(v).image = made;
  return made;
}

BufferId Region::result_image(ValueId v) {
  const TensorType& type = graph().type(v);
  if (same_either_way(type.shape)) return to_.of(v);
  form(v) = {to_.temporary(type.bytes() + kImageSlack), false};
  return form(v).image;
}

void Region::finish() {
  std::vector<int> inside_uses(graph().values.size(), 0);
  for (NodeId id : nodes_)
    for (ValueId v : graph().node(id).inputs)
      if (v != kNone) ++inside_uses[static_cast<size_t>(v)];
  // A view that nobody outside reads does not count. Later views look at earlier ones.
  std::vector<int> outside(graph().values.size(), 0);
  for (size_t v = 0; v < outside.size(); ++v)
    outside[v] = to_.uses(static_cast<ValueId>(v)) - inside_uses[v];
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    const Node& node = graph().nodes[n];
    if (node.op->is_view && outside[static_cast<size_t>(node.outputs[0])] == 0)
      --outside[static_cast<size_t>(node.inputs[0])];
  }
  for (NodeId id : nodes_)
    for (ValueId v : graph().node(id).outputs)
      if (only_image(v) && outside[static_cast<size_t>(v)] > 0) plain(v, id);
}

}  // namespace hone::cpu
