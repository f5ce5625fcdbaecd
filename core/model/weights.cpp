// SPDX-License-Identifier: Apache-2.0
// Weights by name: out of models, into models, renamed on the way.
#include "hone/weights.hpp"

#include <algorithm>
#include <unordered_map>

#include "core/model/tensor_list.hpp"

namespace hone {

std::vector<NamedTensor> weights(const Model& model) {
  std::vector<NamedTensor> out;
  for (const ValueInfo& v : model.graph.values)
    if (is_weight(v)) out.push_back({v.name, v.data});
  return out;
}

namespace {

bool is_batch_count(std::string_view name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

// The tensor in the state's type, when it can take the state's place.
Result<TensorData> fitting(const NamedTensor& t, const ValueInfo& state, Complaints& complaints) {
  const TensorType &have = t.data.type(), &want = state.data.type();
  if (have == want) return t.data;
  if (have.shape != want.shape || !is_float(have.dtype) || !is_float(want.dtype)) {
    complaints.add(format("'{}' is {}, the model has {}", t.name, have, want));
    return state.data;
  }
  return cast(t.data, want.dtype);
}

}  // namespace

Status set_weights(Model& model, std::span<const NamedTensor> tensors) {
  Complaints complaints;
  std::unordered_map<std::string_view, const NamedTensor*> unused;
  for (const NamedTensor& t : tensors)
    if (!unused.emplace(t.name, &t).second) complaints.add(format("'{}' is there twice", t.name));
  std::vector<std::pair<ValueInfo*, TensorData>> updates;
  for (ValueInfo& v : model.graph.values) {
    if (!is_weight(v)) continue;
    const auto at = unused.find(v.name);
    if (at == unused.end()) {
      complaints.add(format("'{}' is missing", v.name));
      continue;
    }
    HONE_ASSIGN(TensorData data, fitting(*at->second, v, complaints));
    updates.emplace_back(&v, std::move(data));
    unused.erase(at);
  }
  for (const NamedTensor& t : tensors)
    if (unused.count(t.name) > 0 && !is_batch_count(t.name))
      complaints.add(format("'{}' is not in the model", t.name));
  if (!complaints.empty())
    return invalid("the tensors are not those of the model: {}", complaints.text());
  for (auto& [state, data] : updates) state->data = std::move(data);
  return {};
}

Result<Renaming> parse_renaming(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    return invalid("renaming '{}': expected FROM=TO, as in model.*=*", text);
  Renaming r{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  const auto stars = [](const std::string& s) { return std::count(s.begin(), s.end(), '*'); };
  if (stars(r.from) > 1 || stars(r.to) != stars(r.from))
    return invalid("renaming '{}': expected one '*' on both sides, or none", text);
  return r;
}

namespace {

bool apply_to(std::string& name, const Renaming& r) {
  const size_t star = r.from.find('*');
  if (star == std::string::npos) {
    if (name != r.from) return false;
    name = r.to;
    return true;
  }
  const std::string_view before = std::string_view(r.from).substr(0, star),
                         after = std::string_view(r.from).substr(star + 1);
  if (name.size() < before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return false;
  const std::string middle = name.substr(before.size(), name.size() - before.size() - after.size());
  name = r.to;
  if (const size_t at = name.find('*'); at != std::string::npos) name.replace(at, 1, middle);
  return true;
}

}  // namespace

void rename(std::vector<NamedTensor>& tensors, std::span<const Renaming> renamings) {
  for (NamedTensor& t : tensors)
    for (const Renaming& r : renamings)
      if (apply_to(t.name, r)) break;
}

}  // namespace hone
