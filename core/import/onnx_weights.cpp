// SPDX-License-Identifier: Apache-2.0
// The rules of onnx_weights.hpp.
#include "core/import/onnx_weights.hpp"

#include <algorithm>
#include <unordered_set>

#include "hone/glob.hpp"

namespace hone::onnx {

namespace {

struct Use {
  const NodeProto* node;
  size_t input;
};

struct Slot {
  std::string_view op_type;
  size_t first, last;  // inputs [first, last]
};

// Where learned tensors stand.
constexpr Slot kWeightSlots[] = {
    {"Attention", 1, 2},
    {"BatchNormalization", 1, 2},
    {"Conv", 1, 2},
    {"ConvTranspose", 1, 2},
    {"Einsum", 0, 9},
    {"GRU", 1, 3},
    {"Gather", 0, 0},
    {"Gemm", 0, 2},
    {"GroupNormalization", 1, 2},
    {"InstanceNormalization", 1, 2},
    {"LSTM", 1, 3},
    {"LSTM", 7, 7},
    {"LayerNormalization", 1, 2},
    {"MatMul", 0, 1},
    {"PRelu", 1, 1},
    {"RMSNormalization", 1, 1},
    {"RNN", 1, 3},
};

// Where numbers stand that steer an operator.
constexpr Slot kSettingSlots[] = {
    {"CastLike", 1, 1},
    {"Clip", 1, 2},
    {"ConstantOfShape", 0, 0},
    {"Dropout", 1, 2},
    {"NonMaxSuppression", 2, 4},
    {"OneHot", 1, 2},
    {"Pad", 1, 3},
    {"Range", 0, 2},
    {"Resize", 1, 3},
    {"Upsample", 1, 1},
    {"QuantizeLinear", 1, 2},
    {"DequantizeLinear", 1, 2},
};

bool stands_in(std::span<const Slot> slots, const Use& use) {
  for (const Slot& s : slots)
    if (s.op_type == use.node->op_type && use.input >= s.first && use.input <= s.last) return true;
  return false;
}

bool one_of(std::string_view s, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), s) != list.end();
}

// "/layer/Constant_3_output_0", "Constant_7": what exporters call the output of a Constant node.
bool named_as_constant(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  if (!name.starts_with("Constant")) return false;
  name.remove_prefix(8);
  const auto is_part = [](char c) { return c == '_' || (c >= '0' && c <= '9'); };
  if (const size_t at = name.find("_output_"); at != name.npos)
    return std::all_of(name.begin(), name.begin() + static_cast<ptrdiff_t>(at), is_part);
  return std::all_of(name.begin(), name.end(), is_part);
}

// 0 and 1, or 0 and one value far below it: no training makes such weights.
bool is_mask(const TensorData& t) {
  if (t.shape().rank() < 2 || !is_float(t.dtype())) return false;
  bool zero = false, other = false;
  double value = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double v = t.at(i);
    if (v == 0) {
      zero = true;
    } else if (!other) {
      if (v != 1 && !(v <= -1000)) return false;
      other = true;
      value = v;
    } else if (v != value) {
      return false;
    }
  }
  return zero && other;
}

class Classifier {
 public:
  Classifier(const ModelProto& model, TensorReader& tensors, const OnnxImportOptions& options)
      : tensors_(tensors), options_(options) {
    collect(model.graph.nodes);
    for (const TensorProto& t : model.graph.initializers) initializers_.insert(t.name);
    for (const ValueInfoProto& v : model.graph.inputs)
      if (!initializers_.contains(v.name)) from_inputs_.insert(v.name);
    for (const NodeProto& n : model.graph.nodes) follow_inputs(n);
    for (const KeyValue& kv : model.metadata_props) {
      if (kv.key == kConstantsKey) remember(kv.value, Weight::constant);
      if (kv.key == kFrozenKey) remember(kv.value, Weight::frozen);
      if (kv.key == kBuffersKey) remember(kv.value, Weight::buffer);
      if (kv.key == kParametersKey) remember(kv.value, Weight::parameter);
    }
  }

  Weight classify(const TensorProto& t) {
    if (matches(options_.parameters, t.name)) return Weight::parameter;
    if (matches(options_.constants, t.name)) return Weight::constant;
    if (const auto said = said_.find(t.name); said != said_.end()) return said->second;
    const auto dtype = dtype_of(t.data_type);
    if (!dtype || !is_float(*dtype)) return Weight::constant;
    const std::vector<Use>& uses = uses_[t.name];
    const auto all = [&](auto holds) { return std::all_of(uses.begin(), uses.end(), holds); };
    const auto is_statistic = [](const Use& u) {
      return u.node->op_type == "BatchNormalization" && u.input >= 3;
    };
    if (!uses.empty() && all(is_statistic)) return Weight::buffer;
    if (all([](const Use& u) { return stands_in(kSettingSlots, u); })) return Weight::constant;
    if (named_as_constant(t.name)) return Weight::constant;
    if (is_learned(t.name, 0)) return Weight::parameter;
    if (t.name.starts_with("/") || t.from_node) return Weight::constant;
    int64_t count = 1;
    for (int64_t d : t.dims) count = d == 1 ? count : 2;
    if (count == 1) return Weight::constant;
    // A tensor that cannot be read is reported where it is used.
    if (const auto data = tensors_.read(t); data.ok() && is_mask(*data)) return Weight::constant;
    const auto standardises = [&](const Use& u) {
      return one_of(u.node->op_type, {"Sub", "Div"}) && u.input == 1 &&
             from_inputs_.contains(u.node->inputs[0]);
    };
    return all(standardises) ? Weight::frozen : Weight::parameter;
  }

 private:
  void collect(std::span<const NodeProto> nodes) {
    for (const NodeProto& n : nodes) {
      for (size_t i = 0; i < n.inputs.size(); ++i) uses_[n.inputs[i]].push_back({&n, i});
      for (std::string_view out : n.outputs) producers_[out] = &n;
      for (const AttributeProto& a : n.attributes)
        for (const GraphProto& g : a.graphs) collect(g.nodes);
    }
  }

  // Marks what is computed from the model's inputs and fixed numbers alone, elementwise or by
  // moving elements.
  void follow_inputs(const NodeProto& n) {
    if (!one_of(n.op_type, {"Cast", "Div", "Identity", "Mul", "Reshape", "Squeeze", "Sub",
                            "Transpose", "Unsqueeze"}))
      return;
    if (n.inputs.empty() || !from_inputs_.contains(n.inputs[0])) return;
    for (std::string_view out : n.outputs) from_inputs_.insert(out);
  }

  bool is_learned(std::string_view name, int depth) {
    for (const Use& u : uses_[name]) {
      if (stands_in(kWeightSlots, u) || is_bias(u)) return true;
      const bool passes =
          u.input == 0 && one_of(u.node->op_type, {"Cast", "Flatten", "Identity", "Reshape",
                                                   "Squeeze", "Transpose", "Unsqueeze"});
      if (passes && depth < 8 && !u.node->outputs.empty() &&
          is_learned(u.node->outputs[0], depth + 1))
        return true;
    }
    return false;
  }

  // Added to the result of a product with a weight.
  bool is_bias(const Use& u) const {
    if (u.node->op_type != "Add" || u.node->inputs.size() != 2) return false;
    const auto producer = producers_.find(u.node->inputs[1 - u.input]);
    if (producer == producers_.end()) return false;
    const NodeProto& product = *producer->second;
    if (!one_of(product.op_type, {"Conv", "ConvTranspose", "Gemm", "MatMul"})) return false;
    return std::any_of(product.inputs.begin(), product.inputs.end(),
                       [&](std::string_view in) { return initializers_.contains(in); });
  }

  void remember(std::string_view names, Weight w) {
    while (!names.empty()) {
      const size_t end = std::min(names.find('\n'), names.size());
      said_[names.substr(0, end)] = w;
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }

  TensorReader& tensors_;
  const OnnxImportOptions& options_;
  std::unordered_map<std::string_view, std::vector<Use>> uses_;
  std::unordered_map<std::string_view, const NodeProto*> producers_;
  std::unordered_set<std::string_view> initializers_, from_inputs_;
  std::unordered_map<std::string_view, Weight> said_;
};

}  // namespace

void hoist_constants(GraphProto& g) {
  const auto is_weight = [](const TensorProto& t) {
    const auto dtype = dtype_of(t.data_type);
    int64_t count = 1;
    for (int64_t d : t.dims) count = d == 1 ? count : 2;
    return dtype && is_float(*dtype) && count > 1;
  };
  if (std::any_of(g.initializers.begin(), g.initializers.end(), is_weight)) return;
  const auto hoist = [&](const NodeProto& n) {
    if (n.op_type != "Constant" || !n.domain.empty() || n.outputs.size() != 1) return false;
    for (const AttributeProto& a : n.attributes) {
      if (a.name != "value" || a.tensors.size() != 1 || !is_weight(a.tensors[0])) continue;
      g.initializers.push_back(a.tensors[0]);
      g.initializers.back().name = n.outputs[0];
      g.initializers.back().from_node = true;
      return true;
    }
    return false;
  };
  std::erase_if(g.nodes, hoist);
}

std::unordered_map<std::string_view, Weight> classify_weights(const ModelProto& model,
                                                              TensorReader& tensors,
                                                              const OnnxImportOptions& options) {
  Classifier classifier(model, tensors, options);
  std::unordered_map<std::string_view, Weight> out;
  for (const TensorProto& t : model.graph.initializers) out[t.name] = classifier.classify(t);
  return out;
}

}  // namespace hone::onnx
