// SPDX-License-Identifier: Apache-2.0
// The lab's models (tests/lab/README.md), where HONE_LAB_MODELS names their folder: what is learned
// and what comes out.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/session.hpp"
#include "tests/support/check.hpp"
#include "tests/support/graph_text.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temp_dir.hpp"

namespace hone {
namespace {

using namespace test;
namespace fs = std::filesystem;

// The small training models of tests/golden are always there.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  const auto look_in = [&](const fs::path& root) {
    for (const auto& entry : fs::directory_iterator(root))
      if (fs::exists(entry.path() / "train.npz")) folders.push_back(entry.path());
  };
  look_in(source_path("tests/golden"));
  if (const char* lab = std::getenv("HONE_LAB_MODELS")) look_in(lab);
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST_CASE("exactly the parameters of the PyTorch module are learned") {
  for (const fs::path& folder : model_folders()) {
    INFO(folder.filename().string());
    const auto m = import_onnx(folder / "model.onnx");
    if (!m.ok()) {
      CHECK_EQ(m.status().code(), Code::unsupported);
      MESSAGE("left out: " << m.status().message());
      continue;
    }
    std::vector<std::string> learned;
    for (ValueId id : m->graph.states(StateRole::parameter))
      if (m->graph.value(id).trainable) learned.push_back(m->graph.value(id).name);
    std::vector<std::string> want =
        must(must(NpzReader::open(folder / "train.npz")).read_strings("params"));
    std::sort(learned.begin(), learned.end());
    std::sort(want.begin(), want.end());
    CHECK(learned == want);
  }
}

TEST_CASE("models give the reference outputs") {
  size_t compared = 0;
  for (const fs::path& folder : model_folders()) {
    if (!fs::exists(folder / "output.npz")) continue;
    INFO(folder.filename().string());
    const auto m = import_onnx(folder / "model.onnx");
    if (!m.ok()) continue;
    const NpzReader in = must(NpzReader::open(folder / "input.npz")),
                    out = must(NpzReader::open(folder / "output.npz"));
    Session session = must(Session::create(*m));
    std::vector<TensorData> inputs;
    for (ValueId id : m->graph.inputs) inputs.push_back(must(in.read(m->graph.value(id).name)));
    const std::vector<TensorData> got = must(session.run(inputs));
    for (size_t k = 0; k < got.size(); ++k) {
      const TensorData want = must(out.read(m->graph.outputs[k].name));
      REQUIRE_EQ(got[k].type(), want.type());
      double largest = 0, off = 0;
      for (int64_t i = 0; i < want.numel(); ++i) {
        largest = std::max(largest, std::fabs(want.at(i)));
        off = std::max(off, std::fabs(got[k].at(i) - want.at(i)));
      }
      CHECK_LE(off, 1e-4 * largest);
      ++compared;
    }
  }
  MESSAGE(compared << " outputs compared"
                   << std::string(std::getenv("HONE_LAB_MODELS") ? ""
                                                                 : "; HONE_LAB_MODELS is not set"));
}

TEST_CASE("models survive export and import") {
  TempDir dir;
  for (const fs::path& folder : model_folders()) {
    INFO(folder.filename().string());
    const auto m = import_onnx(folder / "model.onnx");
    if (!m.ok()) continue;
    REQUIRE_OK(export_onnx(*m, dir.file("m.onnx")));
    CHECK_EQ(graph_text(must(import_onnx(dir.file("m.onnx"))).graph), graph_text(m->graph));
  }
}

}  // namespace
}  // namespace hone
