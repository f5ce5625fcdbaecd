// SPDX-License-Identifier: Apache-2.0
// Whole models of real exporters (tests/golden), simplified as importing does it: the same
// outputs and gradients, with every axis that the file leaves free still free.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/session.hpp"
#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"
#include "tests/support/source_path.hpp"

namespace hone {
namespace {

using namespace test;
namespace fs = std::filesystem;
using Simplify = OnnxImportOptions::Simplify;

std::vector<fs::path> golden_models() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(source_path("tests/golden")))
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

Model imported(const fs::path& folder, Simplify how) {
  OnnxImportOptions options;
  options.simplify = how;
  return must(import_onnx((folder / "model.onnx").string(), options));
}

Result<std::vector<TensorData>> run(const Model& m, std::span<const TensorData> inputs) {
  SessionOptions options;
  options.kernels = Kernels::reference;
  HONE_ASSIGN(Session session, Session::create(m, options));
  return session.run(inputs);
}

// Inputs of the file, and smaller ones: each free axis is cut to its first element in turn. The
// model may refuse these (the file may demand more); then it must do so simplified or not.
std::vector<std::vector<TensorData>> inputs_for(const Model& m, const fs::path& folder) {
  const NpzReader file = must(NpzReader::open((folder / "input.npz").string()));
  std::vector<TensorData> given;
  for (ValueId id : m.graph.inputs) given.push_back(must(file.read(m.graph.value(id).name)));
  std::vector<std::vector<TensorData>> all = {given};
  for (size_t k = 0; k < m.graph.dim_names.size(); ++k) {
    std::vector<TensorData> cut;
    for (size_t i = 0; i < given.size(); ++i) {
      Shape s = given[i].shape();
      const Shape& declared = m.graph.type(m.graph.inputs[i]).shape;
      for (int d = 0; d < s.rank(); ++d)
        if (declared[d] == -static_cast<int64_t>(k) - 1) s[d] = 1;
      cut.push_back(random_tensor({given[i].dtype(), s}, i, 0, 2));
    }
    all.push_back(std::move(cut));
  }
  return all;
}

// Whether the largest difference is within a few roundings of the largest value.
bool near_enough(const TensorData& got, const TensorData& want) {
  double largest = 1;
  for (int64_t i = 0; i < want.numel(); ++i)
    if (std::isfinite(want.at(i))) largest = std::max(largest, std::fabs(want.at(i)));
  const double each = want.dtype() == DType::f16 ? 2e-3 : 2e-6;
  return all_close(got, want, 0, each * largest).close;
}

// Runs each golden model as it is and as `simplify` makes it of that, and hands every pair of
// outputs to `same`.
template <class Simplified, class Same>
void compare_golden_models(Simplified simplify, Same same) {
  int64_t before = 0, after = 0, compared = 0;
  for (const fs::path& folder : golden_models()) {
    INFO(folder.filename().string());
    const Model plain = imported(folder, Simplify::nothing), m = simplify(plain, folder);
    before += count_nodes(plain.graph);
    after += count_nodes(m.graph);
    for (const std::vector<TensorData>& in : inputs_for(plain, folder)) {
      const auto want = run(plain, in), got = run(m, in);
      CHECK_EQ(got.ok(), want.ok());
      if (!want.ok() || !got.ok()) continue;
      for (size_t i = 0; i < want->size(); ++i) same((*got)[i], (*want)[i]);
      ++compared;
    }
  }
  CHECK_LT(after, before);
  MESSAGE(before << " nodes become " << after << "; " << compared << " runs compared");
}

TEST_CASE("exact rules keep every bit of the golden models, at other extents too") {
  compare_golden_models(
      [](const Model& plain, const fs::path&) { return simplified(plain, {.recognise = kExact}); },
      [](const TensorData& got, const TensorData& want) { CHECK(same_bits(got, want)); });
}

TEST_CASE("all rules keep the golden models' outputs up to rounding") {
  compare_golden_models(
      [](const Model&, const fs::path& folder) { return imported(folder, Simplify::fully); },
      [](const TensorData& got, const TensorData& want) {
        CHECK_EQ(got.type(), want.type());
        CHECK(near_enough(got, want));
      });
}

TEST_CASE("a simplified encoder layer has the gradients of the one that was written") {
  for (const char* name : {"torch_encoder_layer_op14", "torch_encoder_layer_op18"}) {
    INFO(name);
    const fs::path folder = source_path(format("tests/golden/{}", name));
    const Model plain = imported(folder, Simplify::nothing), m = imported(folder, Simplify::fully);
    const std::string left = operators(m.graph);
    CHECK_NE(left.find("layer_norm"), std::string::npos);
    CHECK_NE(left.find("gelu"), std::string::npos);
    CHECK_EQ(left.find("erf"), std::string::npos);
    const auto want = gradients(plain, {2, 5}), got = gradients(m, {2, 5});
    REQUIRE_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(near_enough(got[i], want[i]));
  }
}

}  // namespace
}  // namespace hone
