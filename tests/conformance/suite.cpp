// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/suite.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/base/file.hpp"
#include "core/import/onnx_proto.hpp"

namespace hone::test {

namespace fs = std::filesystem;

namespace {

// The light models come without inputs: arange(n) / n in the input's shape, one output each.
constexpr std::string_view kLight = "light";

void add_light_tests(const fs::path& folder, std::vector<SuiteTest>& tests) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".onnx")
      tests.push_back({std::string(kLight), entry.path().stem().string(), folder.string(),
                       entry.path().string()});
}

// Operators and domains that put a test outside the core set whatever its types are.
std::string beyond_core(std::string_view op_type, std::string_view domain) {
  constexpr std::string_view kTypes[] = {"Sequence",     "Optional", "String",
                                         "ImageDecoder", "Regex",    "TfIdf"};
  if (domain == "ai.onnx.ml") return "operators of ai.onnx.ml";
  if (op_type == "ReverseSequence") return "";
  for (std::string_view t : kTypes)
    if (op_type.find(t) != op_type.npos) return format("the operator {}", op_type);
  return "";
}

std::string beyond_core(const onnx::ValueInfoProto& v) {
  using Kind = onnx::ValueInfoProto::Kind;
  if (v.kind == Kind::sequence) return "sequences";
  if (v.kind == Kind::optional) return "optionals";
  if (v.kind != Kind::tensor) return "values that are no tensors";
  const auto dtype = onnx::dtype_of(v.elem_type);
  if (!dtype || *dtype == DType::bf16) return format("elements of {}", v.elem_type);
  return "";
}

// Their expected outputs come from NumPy's Mersenne Twister: only properties could be checked.
bool is_random(const SuiteTest& t) {
  const bool dropout =
      t.name.starts_with("test_training_dropout") && t.name.find("zero_ratio") == std::string::npos;
  return dropout || t.name.starts_with("test_bernoulli");
}

Result<TensorData> read_tensor_file(const std::string& path) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  HONE_ASSIGN(const onnx::TensorProto proto, onnx::read_tensor(file.bytes()));
  auto data = onnx::TensorReader(file.owner()).read(proto, onnx::NarrowElements::widen);
  return data.ok() ? std::move(data) : data.status().with_context(path);
}

Result<TestData> read_light_data(const SuiteTest& test) {
  constexpr int64_t kSide = 224, kCount = 3 * kSide * kSide;
  TestData out;
  HONE_ASSIGN(TensorData in, TensorData::allocate({DType::f32, {1, 3, kSide, kSide}}));
  for (int64_t i = 0; i < kCount; ++i)
    in.as_mutable<float>()[i] = static_cast<float>(static_cast<double>(i) / kCount);
  out.inputs.push_back(std::move(in));
  HONE_ASSIGN(TensorData want,
              read_tensor_file(format("{}/{}_output_0.pb", test.folder, test.name)));
  out.outputs.push_back(std::move(want));
  return out;
}

}  // namespace

std::vector<SuiteTest> find_tests(const std::string& root) {
  std::vector<SuiteTest> tests;
  for (const char* kind : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    const fs::path folder = fs::path(root) / kind;
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder))
      if (const fs::path model = entry.path() / "model.onnx"; fs::exists(model))
        tests.push_back(
            {kind, entry.path().filename().string(), entry.path().string(), model.string()});
  }
  if (const fs::path light = fs::path(root) / kLight; fs::exists(light))
    add_light_tests(light, tests);
  std::sort(tests.begin(), tests.end(), [](const SuiteTest& a, const SuiteTest& b) {
    return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
  });
  return tests;
}

Result<TestFacts> read_facts(const SuiteTest& test) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(test.model));
  HONE_ASSIGN(const onnx::ModelProto model, onnx::read_model(file.bytes()));
  TestFacts facts;
  std::set<std::string_view> weights, operators;
  const auto note = [&](std::string beyond) {
    if (facts.beyond.empty()) facts.beyond = std::move(beyond);
  };
  for (const onnx::TensorProto& t : model.graph.initializers) weights.insert(t.name);
  for (const onnx::ValueInfoProto& v : model.graph.inputs) {
    note(beyond_core(v));
    facts.inputs += !weights.contains(v.name);
  }
  for (const onnx::ValueInfoProto& v : model.graph.outputs) note(beyond_core(v));
  for (const onnx::NodeProto& n : model.graph.nodes) {
    note(beyond_core(n.op_type, n.domain));
    operators.insert(n.op_type);
  }
  if (is_random(test)) note("random numbers as NumPy draws them");
  for (std::string_view o : operators)
    facts.operators += format("{}{}", facts.operators.empty() ? "" : ", ", o);
  facts.core = facts.beyond.empty();
  return facts;
}

Result<TestData> read_data(const SuiteTest& test, size_t inputs) {
  if (test.kind == kLight) return read_light_data(test);
  TestData out;
  const std::string set = test.folder + "/test_data_set_0";
  for (size_t i = 0; i < inputs; ++i) {
    HONE_ASSIGN(TensorData t, read_tensor_file(format("{}/input_{}.pb", set, i)));
    out.inputs.push_back(std::move(t));
  }
  for (size_t i = 0;; ++i) {
    const std::string path = format("{}/output_{}.pb", set, i);
    if (!fs::exists(path)) break;
    HONE_ASSIGN(TensorData t, read_tensor_file(path));
    out.outputs.push_back(std::move(t));
  }
  return out;
}

std::string judge(const TensorData& got, const TensorData& want, double rtol, double atol) {
  if (got.type() != want.type()) return format("is {}, expected {}", got.type(), want.type());
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double g = got.at(i), w = want.at(i);
    const bool same = g == w || (std::isnan(g) && std::isnan(w)) ||
                      (std::isfinite(w) && std::fabs(g - w) <= atol + rtol * std::fabs(w));
    if (!same) return format("differs: element {} is {}, expected {}", i, g, w);
  }
  return "";
}

}  // namespace hone::test
