// SPDX-License-Identifier: Apache-2.0
// A convolution and the batch normalisation after it, with fixed statistics, are one convolution:
// with s = scale / sqrt(var + eps), the weights of an output channel are multiplied by its s, and
// the bias b becomes (b - mean) s + bias.
#include <cmath>

#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "hone/simplify.hpp"
#include "hone/specialise.hpp"

namespace hone {

namespace {

enum BatchNormInput { kX, kScale, kBias, kMean, kVar };

struct Match {
  NodeId conv = kNone, norm = kNone;
};

class Folder {
 public:
  explicit Folder(Graph& g) : g_(g), readers_(g.values.size(), 0) {
    const auto read = [&](ValueId v) {
      if (v != kNone) ++readers_[static_cast<size_t>(v)];
    };
    for (const Node& n : g.nodes)
      for (ValueId v : n.inputs) read(v);
    for (const GraphOutput& o : g.outputs) read(o.value);
    for (const StateUpdate& u : g.updates) read(u.state), read(u.next);
  }

  Result<int64_t> run() {
    int64_t folded = 0;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Match m = match(static_cast<NodeId>(i));
      if (m.conv == kNone) continue;
      HONE_TRY(fold(m));
      ++folded;
    }
    if (folded > 0) HONE_TRY(remove_dead(g_));
    return folded;
  }

 private:
  Node& node(NodeId id) { return g_.nodes[static_cast<size_t>(id)]; }
  int readers(ValueId v) const { return readers_[static_cast<size_t>(v)]; }
  static ValueId input(const Node& n, size_t i) {
    return i < n.inputs.size() ? n.inputs[i] : kNone;
  }

  bool has_data(ValueId v) const {
    if (v == kNone) return false;
    const ValueKind kind = g_.value(v).kind;
    return kind == ValueKind::state || kind == ValueKind::constant;
  }
  // A weight that may be changed: nothing else reads it.
  bool is_own(ValueId v) const { return has_data(v) && readers(v) == 1; }
  bool is_vector(ValueId v, int64_t channels) const {
    return has_data(v) && g_.type(v).shape == Shape{channels} && is_float(g_.type(v).dtype);
  }

  Match match(NodeId id) {
    const Node& norm = node(id);
    if (norm.op != &op::batch_norm || norm.outputs.size() != 1) return {};
    const ValueInfo& x = g_.value(norm.inputs[kX]);
    if (x.kind != ValueKind::node || readers(norm.inputs[kX]) != 1) return {};
    const Node& conv = node(x.producer);
    const ValueId w = input(conv, 1), b = input(conv, 2);
    if (conv.op != &op::conv || !is_own(w) || !is_float(g_.type(w).dtype)) return {};
    if (g_.type(w).shape.rank() < 1) return {};
    const int64_t channels = g_.type(w).shape[0];
    for (size_t i = kScale; i <= kVar; ++i)
      if (!is_vector(norm.inputs[i], channels)) return {};
    // What becomes the bias: the convolution's own, or that of the normalisation.
    const ValueId becomes = b == kNone ? norm.inputs[kBias] : b;
    if (!is_own(becomes) || !is_vector(becomes, channels)) return {};
    return {x.producer, id};
  }

  Status set(ValueId v, const std::vector<double>& numbers) {
    ValueInfo& info = g_.value(v);
    HONE_ASSIGN(TensorData wide, TensorData::zeros({DType::f64, info.type.shape}));
    std::copy(numbers.begin(), numbers.end(), wide.as_mutable<double>());
    HONE_ASSIGN(info.data, cast(wide, info.type.dtype));
    return {};
  }

  // Nothing reads it any more: as a constant it goes with what is dead.
  void drop(ValueId v) {
    if (--readers_[static_cast<size_t>(v)] == 0) g_.value(v).kind = ValueKind::constant;
  }

  Status fold(const Match& m) {
    Node &conv = node(m.conv), &norm = node(m.norm);
    const ValueId w = conv.inputs[1], b = input(conv, 2);
    const auto data = [&](size_t i) -> const TensorData& { return g_.value(norm.inputs[i]).data; };
    const double eps = norm.attrs.as<BatchNormAttrs>().eps;
    const TensorData weights = g_.value(w).data;
    const int64_t channels = weights.shape()[0], each = channels ? weights.numel() / channels : 0;
    std::vector<double> new_weights, new_bias;
    for (int64_t c = 0; c < channels; ++c) {
      const double s = data(kScale).at(c) / std::sqrt(data(kVar).at(c) + eps);
      for (int64_t i = 0; i < each; ++i) new_weights.push_back(weights.at(c * each + i) * s);
      const double before = b == kNone ? 0 : g_.value(b).data.at(c);
      new_bias.push_back((before - data(kMean).at(c)) * s + data(kBias).at(c));
    }
    HONE_TRY(set(w, new_weights));
    const ValueId bias = b == kNone ? norm.inputs[kBias] : b;
    HONE_TRY(set(bias, new_bias));
    conv.inputs.resize(3, kNone);
    conv.inputs[2] = bias;
    for (size_t i = kScale; i <= kVar; ++i)
      if (norm.inputs[i] != bias) drop(norm.inputs[i]);
    // The convolution makes what the normalisation made, which is left with a value nobody reads.
    std::swap(conv.outputs[0], norm.outputs[0]);
    g_.value(conv.outputs[0]).producer = m.conv;
    g_.value(norm.outputs[0]).producer = m.norm;
    norm.inputs.assign(norm.inputs.size(), conv.outputs[0]);
    return {};
  }

  Graph& g_;
  std::vector<int> readers_;  // by value
};

}  // namespace

Result<int64_t> fold_batch_norm(Graph& g) { return Folder(g).run(); }

}  // namespace hone
