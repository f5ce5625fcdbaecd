// SPDX-License-Identifier: Apache-2.0
// Attributes between their structs and the file.
#pragma once

#include "core/model/file_reader.hpp"
#include "core/model/file_writer.hpp"
#include "hone/attrs.hpp"

namespace hone {

/// Writes the fields that differ from their defaults.
OffsetVector<Offset<schema::Attr>> write_attrs(FileWriter& w, const Attrs& attrs);

/// Fields that are missing have their defaults. Errors: invalid_model naming the attribute (unknown
/// to the operator, given twice, of another kind, or an unknown enumerator).
Result<Attrs> read_attrs(FileReader& r, const AttrSchema& schema,
                         const flatbuffers::Vector<Offset<schema::Attr>>* attrs,
                         std::string_view who);

}  // namespace hone
