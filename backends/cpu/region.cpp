// SPDX-License-Identifier: Apache-2.0
// The orders in which the tensors of a region stand in memory, and what is fused.
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
  inside_.assign(graph().nodes.size(), false);
  forms_.resize(graph().values.size());
  pointwise_reads_.assign(graph().values.size(), 0);
  for (NodeId n : nodes_) inside_[static_cast<size_t>(n)] = true;
}

// A view's bytes are those of what it looks at.
ValueId Region::root(ValueId v) const {
  for (;;) {
    const ValueInfo& info = graph().value(v);
    if (info.kind != ValueKind::node || !graph().node(info.producer).op->is_view) return v;
    v = graph().node(info.producer).inputs[0];
  }
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
  const ValueId r = root(v);
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

// ---- fusion

namespace {

bool bounds(const Node& n) {
  return n.op == &op::relu ||
         (n.op == &op::clip && n.attrs.as<ClipAttrs>().low <= n.attrs.as<ClipAttrs>().high);
}

// The region's nodes by the values they read, where a value has one reader only.
class Readers {
 public:
  Readers(const Lowering& to, std::span<const NodeId> nodes) : to_(to) {
    only_.assign(to.graph().values.size(), kNone);
    for (NodeId id : nodes)
      for (ValueId v : to.graph().node(id).inputs)
        if (v != kNone) only_[static_cast<size_t>(v)] = id;
  }
  /// The node that alone reads `v`, or kNone.
  NodeId only(ValueId v) const {
    return to_.uses(v) == 1 ? only_[static_cast<size_t>(v)] : NodeId{kNone};
  }

 private:
  const Lowering& to_;
  std::vector<NodeId> only_;
};

// Follows a convolution's result through nodes that alone read it.
Group with_tail(const Graph& g, const Readers& readers, NodeId conv, int parts,
                const std::vector<bool>& taken) {
  Group group{{conv}, {}};
  ValueId v = g.node(conv).outputs[0];
  const auto next = [&]() -> NodeId {
    const NodeId n = readers.only(v);
    return n == kNone || taken[static_cast<size_t>(n)] ? NodeId{kNone} : n;
  };
  const auto take = [&](NodeId n, NodeId& place) {
    place = n;
    group.nodes.push_back(n);
    v = g.node(n).outputs[0];
  };
  if (const NodeId n = (parts & kTailNorm) ? next() : kNone;
      n != kNone && g.node(n).op == &op::batch_norm && g.node(n).inputs[0] == v)
    take(n, group.tail.batch_norm);
  if (const NodeId n = (parts & kTailAdd) ? next() : kNone;
      n != kNone && g.node(n).op == &op::add) {
    const Node& add = g.node(n);
    if (add.inputs[0] != add.inputs[1] && g.type(add.inputs[0]) == g.type(add.inputs[1]))
      take(n, group.tail.add);
  }
  if (const NodeId n = (parts & kTailBound) ? next() : kNone; n != kNone && bounds(g.node(n)))
    take(n, group.tail.bound);
  return group;
}

}  // namespace

std::vector<Group> Region::fuse(const std::function<bool(NodeId)>& pointwise,
                                const std::function<int(NodeId)>& tail) {
  const Graph& g = graph();
  const Readers readers(to_, nodes_);
  std::vector<bool> taken(g.nodes.size(), false);
  std::vector<Group> at(g.nodes.size());  // by last node
  std::vector<size_t> position(g.nodes.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) position[static_cast<size_t>(nodes_[i])] = i;
  const auto place = [&](Group group) {
    for (NodeId n : group.nodes) taken[static_cast<size_t>(n)] = true;
    const size_t last = static_cast<size_t>(group.last());
    at[last] = std::move(group);
  };
  // A sum of two convolutions goes to the later one.
  for (size_t i = nodes_.size(); i-- > 0;)
    if (const int parts = tail(nodes_[i])) place(with_tail(g, readers, nodes_[i], parts, taken));
  // An element-wise node joins the one that alone reads it; seen from the last on.
  constexpr size_t kMostNodes = 24, kMostOperands = 20;
  for (size_t i = nodes_.size(); i-- > 0;) {
    const NodeId last = nodes_[i];
    if (taken[static_cast<size_t>(last)]) continue;
    if (!pointwise(last)) {
      place({{last}, {}});
      continue;
    }
    Group group{{last}, {}};
    const Shape& shape = g.type(g.node(last).outputs[0]).shape;
    size_t operands = g.node(last).inputs.size();
    for (size_t k = 0; k < group.nodes.size(); ++k) {
      const Node& n = g.node(group.nodes[k]);
      for (ValueId v : n.inputs) {
        if (v == kNone || g.value(v).kind != ValueKind::node) continue;
        const NodeId from = g.value(v).producer;
        const int reads = static_cast<int>(std::count(n.inputs.begin(), n.inputs.end(), v));
        if (!inside(from) || taken[static_cast<size_t>(from)] || to_.uses(v) != reads) continue;
        if (std::find(group.nodes.begin(), group.nodes.end(), from) != group.nodes.end()) continue;
        if (!pointwise(from) || g.type(v).shape != shape) continue;
        const size_t more = g.node(from).inputs.size();
        if (group.nodes.size() == kMostNodes || operands + more > kMostOperands) continue;
        operands += more;
        group.nodes.push_back(from);
      }
    }
    std::sort(group.nodes.begin(), group.nodes.end(), [&](NodeId a, NodeId b) {
      return position[static_cast<size_t>(a)] < position[static_cast<size_t>(b)];
    });
    for (NodeId n : group.nodes)
      for (ValueId v : g.node(n).inputs)
        if (v != kNone) ++pointwise_reads_[static_cast<size_t>(v)];
    place(std::move(group));
  }
  std::vector<Group> out;
  for (NodeId n : nodes_)
    if (Group& group = at[static_cast<size_t>(n)]; !group.nodes.empty())
      out.push_back(std::move(group));
  return out;
}

}  // namespace hone::cpu
