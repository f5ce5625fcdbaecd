// SPDX-License-Identifier: Apache-2.0
// The golden models of real exporters (tests/golden): imported, run with the reference kernels,
// exported and imported again.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/session.hpp"
#include "tests/support/check.hpp"
#include "tests/support/damage.hpp"
#include "tests/support/graph_text.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temp_dir.hpp"

namespace hone {
namespace {

using namespace test;
namespace fs = std::filesystem;

struct Exception {
  std::string_view name, why;
};
// What comes back from an export as other nodes that compute the same.
constexpr Exception kRespelled[] = {
    {"reduce_attr_op11", "stop_gradient has no ONNX form"},
    {"torch_reduce_op11", "stop_gradient"},
    {"torch_reduce_op13", "stop_gradient"},
    {"torch_reduce_op18", "stop_gradient"},
    {"if_then_op13", "a branch's own weight has become the model's"},
    {"if_else_op13", "a branch's own weight has become the model's"},
};

template <size_t kCount>
bool is_in(const Exception (&list)[kCount], std::string_view name) {
  return std::any_of(std::begin(list), std::end(list),
                     [&](const Exception& e) { return e.name == name; });
}

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_path("tests/golden")))
    if (fs::exists(entry.path() / "model.onnx")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string path_of(const std::string& name, std::string_view file) {
  return source_path(format("tests/golden/{}/{}", name, file));
}

// "" when `got` is close enough by the rule of tests/golden/README.md.
std::string difference(const TensorData& got, const TensorData& want) {
  if (got.type() != want.type()) return format("is {}, expected {}", got.type(), want.type());
  if (!is_float(want.dtype()))
    return std::equal(got.as_bytes().begin(), got.as_bytes().end(), want.as_bytes().begin())
               ? ""
               : "integers differ";
  double largest = 1;
  for (int64_t i = 0; i < want.numel(); ++i)
    if (std::isfinite(want.at(i))) largest = std::max(largest, std::fabs(want.at(i)));
  const double allowed = largest * (want.dtype() == DType::f16 ? 2e-3 : 1e-5);
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double g = got.at(i), w = want.at(i);
    const bool same = g == w || (std::isnan(g) && std::isnan(w)) || std::fabs(g - w) <= allowed;
    if (!same) return format("element {} is {}, expected {} within {}", i, g, w, allowed);
  }
  return "";
}

// "" when the model gives the expected outputs.
std::string run_and_compare(const Model& m, const std::string& name) {
  const NpzReader inputs = must(NpzReader::open(path_of(name, "input.npz")));
  const NpzReader outputs = must(NpzReader::open(path_of(name, "output.npz")));
  SessionOptions options;
  options.kernels = Kernels::reference;
  auto session = Session::create(m, options);
  if (!session.ok()) return session.status().message();
  std::vector<TensorData> in;
  for (ValueId id : m.graph.inputs) in.push_back(must(inputs.read(m.graph.value(id).name)));
  auto out = session->run(in);
  if (!out.ok()) return out.status().message();
  for (size_t i = 0; i < out->size(); ++i) {
    const std::string& output = m.graph.outputs[i].name;
    const std::string d = difference((*out)[i], must(outputs.read(output)));
    if (!d.empty()) return format("output '{}' {}", output, d);
  }
  return "";
}

TEST_CASE("golden models give the outputs of their makers") {
  size_t passed = 0;
  for (const std::string& name : golden_models()) {
    INFO(name);
    const auto m = import_onnx(path_of(name, "model.onnx"));
    CHECK_OK(m);
    if (!m.ok()) continue;
    CHECK_OK(verify(m->graph));
    const std::string wrong = run_and_compare(*m, name);
    CHECK_EQ(wrong, "");
    passed += wrong.empty();
  }
  MESSAGE(passed << " golden models pass");
}

TEST_CASE("golden models survive export and import") {
  TempDir dir;
  for (const std::string& name : golden_models()) {
    INFO(name);
    const auto m = import_onnx(path_of(name, "model.onnx"));
    CHECK_OK(m);
    if (!m.ok()) continue;
    CHECK_OK(export_onnx(*m, dir.file("again.onnx")));
    const auto again = import_onnx(dir.file("again.onnx"));
    CHECK_OK(again);
    if (!again.ok()) continue;
    if (!is_in(kRespelled, name)) CHECK_EQ(graph_text(again->graph), graph_text(m->graph));
    CHECK_EQ(run_and_compare(*again, name), "");
  }
}

TEST_CASE("damaged golden models are refused or give a valid graph") {
  size_t refused = 0, accepted = 0;
  for (const std::string& name : golden_models()) {
    INFO(name);
    const std::string bytes = read_text(path_of(name, "model.onnx"));
    const auto try_import = [&](const std::string& damaged) {
      const auto owner = std::make_shared<const std::string>(damaged);
      const auto m =
          import_onnx(std::as_bytes(std::span(*owner)), owner, source_path("tests/golden/" + name));
      if (m.ok()) CHECK_OK(verify(m->graph));
      if (!m.ok()) CHECK_NE(m.status().code(), Code::internal);
      ++(m.ok() ? accepted : refused);
    };
    for_each_truncation(bytes, bytes.size() / 11 + 1, try_import);
    for_each_bad_byte(bytes, bytes.size() / 23 + 1, try_import);
  }
  CHECK_GT(refused, accepted / 10);
}

}  // namespace
}  // namespace hone
