// SPDX-License-Identifier: Apache-2.0
// From Hone's graph to an ONNX model: one Exporter writes one graph, that of the model or that of a
// body (of If, Loop, Scan). What its parts do stands in a file each, named below.
#pragma once

#include <limits>

#include "core/import/export_ctx.hpp"
#include "hone/onnx.hpp"

namespace hone::onnx {

/// Of tensors in a file of their own, so that runtimes can map each by itself.
inline constexpr uint64_t kExternalAlignment = 4096;

/// Tensors whose bytes go to a second file.
struct External {
  std::string location;
  std::vector<const TensorData*> tensors;
  uint64_t bytes = 0;
};

class Exporter {
 public:
  Exporter(const Model& model, External* external)
      : model_(model), graph_(model.graph), external_(external) {}
  /// For a body.
  Exporter(const Model& model, const Graph& body, External* external)
      : model_(model), graph_(body), external_(external) {}

  Result<wire::Writer> run();

 private:
  struct Alias {
    const GraphOutput* output;
    std::string name;
  };

  // ---- nodes and the names of values: onnx_export.cpp
  ExportState new_state(int opset) const;
  void find_facts(ExportState& s) const;
  Result<ExportState> write_nodes(int opset);
  void write_nodes(ExportState& s);
  void name_values(ExportState& s);
  void write_output_aliases(ExportState& s);
  void find_read(ExportState& s) const;
  void set_dtypes(ExportState& s, const Node& n, OutType out) const;

  // ---- nodes that have bodies: onnx_export_control.cpp
  wire::Writer body(ExportState& outer, const Node& n, const Graph& g, std::span<const DType> own,
                    size_t first_captured, std::vector<DType>& results) const;
  void write_control(ExportState& s, const Node& n, const std::string& name) const;

  // ---- what is round the nodes: onnx_export_model.cpp
  wire::Writer value_info(const std::string& name, DType dtype, const Shape* shape) const;
  wire::Writer weight(const std::string& name, const TensorData& t);
  wire::Writer graph_proto(ExportState& s);
  std::string output_name(const ExportState& s, const GraphOutput& o) const;
  std::string meta(const char* key) const;
  void add_weight_kinds(wire::Writer& m, const ExportState& s) const;
  wire::Writer model_proto(ExportState& s);

  const Model& model_;
  const Graph& graph_;
  External* external_;
  std::vector<Alias> aliases_;
  size_t scalar_inputs_ = 0;                                   // a loop's iteration and condition
  size_t captured_from_ = std::numeric_limits<size_t>::max();  // inputs of a body that are not its
};

}  // namespace hone::onnx
