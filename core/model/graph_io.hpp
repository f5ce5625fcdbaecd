// SPDX-License-Identifier: Apache-2.0
// Graphs between the IR and the file.
#pragma once

#include "core/model/file_reader.hpp"
#include "core/model/file_writer.hpp"

namespace hone {

Offset<schema::Model> write_graph(FileWriter& w, const Model& model);

/// The graph that "main" names, checked by check_graph. Errors: invalid_model; unsupported
/// (operators or versions that this build lacks, all of them named).
Result<Graph> read_graph(FileReader& r, const schema::Model* m);

std::vector<Offset<schema::Plan>> write_plans(FileWriter& w, const std::vector<StoredPlan>& plans);

/// What the file says; whether a plan fits anything is seen where it is used. Errors:
/// invalid_model.
Result<std::vector<StoredPlan>> read_plans(FileReader& r, const schema::Model& m);

/// What a graph that is saved or was loaded must satisfy: the IR's verifier, and beyond it whatever
/// later passes take for granted. Errors: invalid_argument, naming the culprit.
Status check_graph(const Graph& g);

}  // namespace hone
