// SPDX-License-Identifier: Apache-2.0
// Attributes between their structs and the file.
#pragma once

#include <functional>

#include "core/model/file_reader.hpp"
#include "core/model/file_writer.hpp"
#include "hone/attrs.hpp"

namespace hone {

/// Writes a body and gives its index among the model's graphs.
using WriteBody = std::function<uint32_t(const Graph&)>;
/// Reads the body of that index.
using ReadBody = std::function<Result<GraphPtr>(uint32_t)>;

/// Writes the fields that differ from their defaults.
OffsetVector<Offset<schema::Attr>> write_attrs(FileWriter& w, const Attrs& attrs,
                                               const WriteBody& write_body);

/// Fields that are missing have their defaults. Errors: invalid_model naming the attribute (unknown
/// to the operator, given twice, of another kind, or an unknown enumerator).
Result<Attrs> read_attrs(FileReader& r, const AttrSchema& schema,
                         const flatbuffers::Vector<Offset<schema::Attr>>* attrs,
                         std::string_view who, const ReadBody& read_body);

}  // namespace hone
