// SPDX-License-Identifier: Apache-2.0
// Trees of modules.
#include "hone/nn/module.hpp"

#include <algorithm>

#include "hone/trainer.hpp"

namespace hone::nn {

namespace {
std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}
}  // namespace

void Module::add_parameter(std::string name, Tensor& parameter) {
  assert(name.find('.') == std::string::npos);
  parameter.requires_grad_().set_name(name);
  parameters_.emplace_back(std::move(name), &parameter);
}

void Module::add_buffer(std::string name, Tensor& buffer) {
  assert(name.find('.') == std::string::npos);
  buffer.set_name(name);
  buffers_.emplace_back(std::move(name), &buffer);
}

void Module::add_child(std::string name, Module& child) {
  assert(name.find('.') == std::string::npos);
  child.name_ = name;
  children_.emplace_back(std::move(name), &child);
}

void Module::collect(const std::string& path, const Members Module::*which,
                     std::vector<NamedMember>& out) const {
  for (const auto& [name, tensor] : this->*which)
    if (tensor->defined()) out.push_back({join(path, name), *tensor});
  for (const auto& [name, child] : children_) child->collect(join(path, name), which, out);
}

std::vector<NamedMember> Module::named_parameters() const {
  std::vector<NamedMember> out;
  collect("", &Module::parameters_, out);
  return out;
}

std::vector<NamedMember> Module::named_buffers() const {
  std::vector<NamedMember> out;
  collect("", &Module::buffers_, out);
  return out;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (NamedMember& m : named_parameters()) out.push_back(std::move(m.tensor));
  return out;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& t : parameters()) count += t.numel();
  return count;
}

void Module::apply(const std::function<void(Module&, const std::string&)>& fn) {
  const std::function<void(Module&, const std::string&)> walk = [&](Module& m,
                                                                    const std::string& path) {
    fn(m, path);
    for (const auto& [name, child] : m.children_) walk(*child, join(path, name));
  };
  walk(*this, "");
}

Module& Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
  return *this;
}

int Module::set_requires_grad(std::string_view globs, bool on) {
  int matched = 0;
  for (NamedMember& m : named_parameters()) {
    if (!matches(globs, m.name)) continue;
    m.tensor.requires_grad_(on);
    ++matched;
  }
  return matched;
}

void Module::zero_grad() {
  for (Tensor& t : parameters()) t.zero_grad();
}

Module& Module::to(DType dtype) {
  std::vector<NamedMember> members = named_parameters();
  for (NamedMember& m : named_buffers()) members.push_back(std::move(m));
  for (NamedMember& m : members)
    if (is_float(m.tensor.dtype()) && m.tensor.dtype() != dtype)
      m.tensor.set_data(m.tensor.detach().to(dtype).data());
  return *this;
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> out;
  for (const NamedMember& m : named_parameters()) out.push_back({m.name, m.tensor.data()});
  for (const NamedMember& m : named_buffers()) out.push_back({m.name, m.tensor.data()});
  return out;
}

Status Module::load_state_dict(std::span<const NamedTensor> state, Match match) {
  std::vector<NamedMember> members = named_parameters();
  for (NamedMember& m : named_buffers()) members.push_back(std::move(m));
  std::string missing, unexpected, mismatched;
  const auto list = [](std::string& out, std::string_view text) {
    out += format("{}{}", out.empty() ? "" : ", ", text);
  };
  std::vector<std::pair<Tensor, TensorData>> updates;
  std::vector<bool> known(state.size(), false);
  for (const NamedMember& m : members) {
    const auto found = std::find_if(state.begin(), state.end(),
                                    [&](const NamedTensor& t) { return t.name == m.name; });
    if (found == state.end()) {
      if (m.name == "num_batches_tracked" || m.name.ends_with(".num_batches_tracked")) continue;
      list(missing, format("'{}'", m.name));
      continue;
    }
    known[static_cast<size_t>(found - state.begin())] = true;
    const TensorType& want = m.tensor.type();
    const bool convertible = is_float(want.dtype) && is_float(found->data.dtype());
    if (found->data.shape() != want.shape || (found->data.dtype() != want.dtype && !convertible)) {
      list(mismatched, format("'{}' is {}, got {}", m.name, want, found->data.type()));
      continue;
    }
    HONE_ASSIGN(TensorData data, found->data.dtype() == want.dtype ? Result<TensorData>(found->data)
                                                                   : cast(found->data, want.dtype));
    updates.emplace_back(m.tensor, std::move(data));
  }
  for (size_t i = 0; i < state.size(); ++i)
    if (!known[i]) list(unexpected, format("'{}'", state[i].name));
  if (match == Match::partial) missing.clear(), unexpected.clear();
  if (!missing.empty() || !unexpected.empty() || !mismatched.empty()) {
    std::string text;
    if (!missing.empty()) text += "missing: " + missing;
    if (!unexpected.empty())
      text += (text.empty() ? "unexpected: " : "; unexpected: ") + unexpected;
    if (!mismatched.empty())
      text += (text.empty() ? "of another type: " : "; of another type: ") + mismatched;
    return invalid("load_state_dict: {}", text);
  }
  for (auto& [tensor, data] : updates) tensor.set_data(std::move(data));
  return {};
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& layer : layers_) y = (*layer)(y);
  return y;
}

namespace {

struct Row {
  std::string path, kind, shapes, count;
};

void pad_to(std::string& text, size_t width) {
  text.append(width > text.size() ? width - text.size() : 0, ' ');
}

}  // namespace

std::string to_string(const Module& module) {
  std::vector<Row> rows = {{"module", "kind", "parameters", "count"}};
  int64_t total = 0, trainable = 0;
  const std::function<void(const Module&, const std::string&)> walk = [&](const Module& m,
                                                                          const std::string& path) {
    Row row{path.empty() ? "(root)" : path, m.kind(), "", ""};
    int64_t count = 0;
    for (const NamedMember& p : m.named_parameters()) {
      count += p.tensor.numel();
      if (p.name.find('.') != std::string::npos) continue;  // a child's
      row.shapes += format("{}{} {}{}", row.shapes.empty() ? "" : ", ", p.name, p.tensor.shape(),
                           p.tensor.requires_grad() ? "" : " frozen");
      total += p.tensor.numel();
      if (p.tensor.requires_grad()) trainable += p.tensor.numel();
    }
    row.count = format("{}", count);
    rows.push_back(std::move(row));
    for (const auto& [name, child] : m.children()) walk(*child, join(path, name));
  };
  walk(module, "");
  size_t widths[3] = {0, 0, 0};
  for (const Row& r : rows) {
    widths[0] = std::max(widths[0], r.path.size());
    widths[1] = std::max(widths[1], r.kind.size());
    widths[2] = std::max(widths[2], r.count.size());
  }
  std::string out;
  for (const Row& r : rows) {
    std::string line = r.path;
    pad_to(line, widths[0] + 2);
    line += r.kind;
    pad_to(line, widths[0] + widths[1] + 4 + widths[2] - r.count.size());
    line += r.count;
    if (!r.shapes.empty()) line += "  " + r.shapes;
    out += line + "\n";
  }
  return out + format("{} parameters, {} trainable", total, trainable);
}

}  // namespace hone::nn
