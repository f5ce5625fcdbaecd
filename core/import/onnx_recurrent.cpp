// SPDX-License-Identifier: Apache-2.0
// ONNX's RNN, GRU and LSTM.
#include <algorithm>
#include <cctype>

#include "core/import/onnx_families.hpp"
#include "hone/recurrent.hpp"

namespace hone::onnx {

namespace {

// Activations by both names, and what alpha and beta are where the file gives none.
struct Activation {
  std::string_view onnx, hone;
  bool takes_alpha = false, takes_beta = false;
  double alpha = 0, beta = 0;
};
constexpr Activation kActivations[] = {
    {"Relu", "relu"},
    {"Tanh", "tanh"},
    {"Sigmoid", "sigmoid"},
    {"Affine", "affine", true, true, 1, 0},
    {"LeakyRelu", "leaky_relu", true, false, 0.01},
    {"ThresholdedRelu", "thresholded_relu", true, false, 1},
    {"ScaledTanh", "scaled_tanh", true, true, 1, 1},
    {"HardSigmoid", "hard_sigmoid", true, true, 0.2, 0.5},
    {"Elu", "elu", true, false, 1},
    {"Softsign", "softsign"},
    {"Softplus", "softplus"},
};

// Runtimes take the names in any case.
bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// alpha and beta are given in the order of the activations that take them.
void read_activations(ImportCtx& c, RecurrentAttrs& a) {
  const AttributeProto* names = c.attribute("activations", AttributeType::strings);
  const std::vector<double> alphas = c.attr_numbers("activation_alpha"),
                            betas = c.attr_numbers("activation_beta");
  if (!names) return;
  size_t next_alpha = 0, next_beta = 0;
  bool any = false;
  for (std::string_view name : names->strings) {
    const auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const Activation& k) { return same_name(k.onnx, name); });
    if (found == std::end(kActivations)) return c.unsupported("with activation '{}'", name);
    a.activations += format("{}{}", a.activations.empty() ? "" : ",", found->hone);
    const auto take = [&](bool takes, const std::vector<double>& given, size_t& next, double def) {
      any |= takes;
      return takes && next < given.size() ? given[next++] : def;
    };
    a.alpha.push_back(take(found->takes_alpha, alphas, next_alpha, found->alpha));
    a.beta.push_back(take(found->takes_beta, betas, next_beta, found->beta));
  }
  if (any) return;
  a.alpha.clear();
  a.beta.clear();
}

// `width`: inputs at most.
template <int width>
void import_recurrent(ImportCtx& c) {
  if (!c.require(3)) return;
  RecurrentAttrs a;
  a.direction =
      c.attr_enum("direction", {"forward", "reverse", "bidirectional"}, Direction::forward);
  read_activations(c, a);
  a.clip = c.attr("clip", 0.0);
  a.input_forget = c.flag("input_forget");
  a.linear_before_reset = c.flag("linear_before_reset");
  a.batch_first = c.flag("layout");
  c.ignore("hidden_size");      // stands in the weights' shapes
  c.ignore("output_sequence");  // until opset 7: outputs are there when they have a name
  const int outputs = c.rule.op == &op::lstm ? 3 : 2;
  const std::vector<Value> outs = c.b.emit_all(
      *c.rule.op, c.inputs().first(static_cast<size_t>(std::min(width, c.size()))), a, outputs);
  if (outs.size() < static_cast<size_t>(outputs)) return;
  c.set(0, outs[0], {c.dtype(0), 4});
  for (int k = 1; k < outputs; ++k) c.set(k, outs[static_cast<size_t>(k)], {c.dtype(0), 3});
}

constexpr ImportRule kImports[] = {
    {"GRU", 1, import_recurrent<6>, &op::gru},
    {"LSTM", 1, import_recurrent<8>, &op::lstm},
    {"RNN", 1, import_recurrent<6>, &op::rnn},
};

std::vector<std::string_view> split_names(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    names.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

void write_activations(const RecurrentAttrs& a, std::vector<OutAttr>& attrs) {
  std::vector<std::string_view> names;
  std::vector<double> alphas, betas;
  for (std::string_view name : split_names(a.activations)) {
    const size_t i = names.size();
    for (const Activation& k : kActivations) {
      if (k.hone != name) continue;
      names.push_back(k.onnx);
      if (k.takes_alpha) alphas.push_back(i < a.alpha.size() ? a.alpha[i] : 0);
      if (k.takes_beta) betas.push_back(i < a.beta.size() ? a.beta[i] : 0);
    }
  }
  attrs.push_back({"activations", std::move(names)});
  attrs.push_back({"activation_alpha", std::move(alphas)});
  attrs.push_back({"activation_beta", std::move(betas)});
}

void export_recurrent(ExportCtx& c) {
  const RecurrentAttrs& a = c.attrs<RecurrentAttrs>();
  std::vector<OutAttr> attrs = {
      {"direction", enum_names(a.direction)[static_cast<size_t>(a.direction)]},
      {"layout", int64_t{a.batch_first}}};
  const ValueInfo& r = c.input_info(2);
  if (r.typed && r.type.shape[2] >= 0) attrs.push_back({"hidden_size", r.type.shape[2]});
  write_activations(a, attrs);
  if (a.clip > 0) attrs.push_back({"clip", a.clip});
  if (a.input_forget) attrs.push_back({"input_forget", int64_t{1}});
  if (a.linear_before_reset) attrs.push_back({"linear_before_reset", int64_t{1}});
  std::vector<std::string> in = c.inputs();
  // ONNX wants the lengths in i32.
  if (c.has(4) && c.dtype(4) != DType::i32)
    in[4] = c.part("Cast", {in[4]}, {{"to", static_cast<int64_t>(ElemType::int32)}});
  c.write(c.rule.op_type, std::move(in), std::move(attrs));
}

constexpr ExportRule kExports[] = {
    {&op::gru, "GRU", export_recurrent},
    {&op::lstm, "LSTM", export_recurrent},
    {&op::rnn, "RNN", export_recurrent},
};

}  // namespace

std::span<const ImportRule> recurrent_imports() { return kImports; }
std::span<const ExportRule> recurrent_exports() { return kExports; }

}  // namespace hone::onnx
