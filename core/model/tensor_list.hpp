// SPDX-License-Identifier: Apache-2.0
// Lists of named tensors, as checkpoints and deltas hold them.
#pragma once

#include "core/model/file_reader.hpp"
#include "core/model/file_writer.hpp"
#include "hone/checkpoint.hpp"

namespace hone {

using TensorTable = flatbuffers::Vector<Offset<schema::NamedTensor>>;

/// Whether the model that a delta is for has the tensor already.
enum class Novelty : uint8_t { known, added };

Offset<schema::NamedTensor> write_named(FileWriter& w, const StateTensor& t,
                                        Novelty novelty = Novelty::known);

/// Errors: invalid_model (a name is missing or used twice, or a tensor is unsound).
Result<std::vector<StateTensor>> read_named(FileReader& r, const TensorTable* table);

/// Gathers complaints into one sentence that names the first few and counts the rest.
class Complaints {
 public:
  void add(std::string_view complaint);
  bool empty() const { return count_ == 0; }
  std::string text() const;

 private:
  std::string text_;
  int64_t count_ = 0;
};

/// Whether a tensor can take the place of a state: ok, or "'conv.weight' is f32[3], the model has
/// f32[4]" added to `complaints`.
void compare(const StateTensor& t, const ValueInfo& state, Complaints& complaints);

bool is_weight(const ValueInfo& v);  ///< A parameter or a buffer.

}  // namespace hone
