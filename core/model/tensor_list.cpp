// SPDX-License-Identifier: Apache-2.0
// What checkpoints and deltas share.
#include "core/model/tensor_list.hpp"

#include <unordered_set>

namespace hone {

namespace {
std::string_view to_string(StateRole role) {
  switch (role) {
    case StateRole::parameter:
      return "a parameter";
    case StateRole::buffer:
      return "a buffer";
    case StateRole::optimizer:
      return "optimizer state";
    case StateRole::rng:
      return "a random counter";
  }
  return "?";
}
}  // namespace

Offset<schema::NamedTensor> write_named(FileWriter& w, const StateTensor& t, Novelty novelty) {
  const Text name = w.text(t.name);
  return schema::CreateNamedTensor(w.header(), name, to_schema(t.role), w.tensor(t.data),
                                   novelty == Novelty::added);
}

Result<std::vector<StateTensor>> read_named(FileReader& r, const TensorTable* table) {
  std::vector<StateTensor> out;
  if (!table) return out;
  out.reserve(table->size());
  std::unordered_set<std::string> names;
  for (const schema::NamedTensor* from : *table) {
    StateTensor t;
    HONE_ASSIGN(t.name, r.text(from->name()));
    if (t.name.empty()) return invalid_model("tensor {} has no name", out.size());
    if (!names.insert(t.name).second)
      return invalid_model("two tensors have the name '{}'", t.name);
    const std::string who = format("tensor '{}'", t.name);
    HONE_ASSIGN(t.role, read_role(from->role(), who));
    HONE_ASSIGN(t.data, r.tensor(from->tensor(), who));
    out.push_back(std::move(t));
  }
  return out;
}

void Complaints::add(std::string_view complaint) {
  constexpr int64_t kShown = 8;
  if (count_++ >= kShown) return;
  text_ += text_.empty() ? "" : "; ";
  text_ += complaint;
}

std::string Complaints::text() const {
  constexpr int64_t kShown = 8;
  return count_ > kShown ? format("{}; and {} more", text_, count_ - kShown) : text_;
}

void compare(const StateTensor& t, const ValueInfo& state, Complaints& complaints) {
  if (t.role != state.role)
    complaints.add(
        format("'{}' is {}, in the model {}", t.name, to_string(t.role), to_string(state.role)));
  else if (t.data.type() != state.type)
    complaints.add(format("'{}' is {}, in the model {}", t.name, t.data.type(), state.type));
}

bool is_weight(const ValueInfo& v) {
  return v.kind == ValueKind::state &&
         (v.role == StateRole::parameter || v.role == StateRole::buffer);
}

}  // namespace hone
