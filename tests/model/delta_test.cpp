// SPDX-License-Identifier: Apache-2.0
// Deltas hold what changed, and fit only the model they were made from.
#include <filesystem>

#include "hone/builder.hpp"
#include "hone/checkpoint.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

namespace {

ValueInfo& state(Model& m, const std::string& name) { return m.graph.value(m.graph.find(name)); }

// The sample model with a new bias and something to say about it.
Model tuned_model() {
  Model m = sample_model();
  state(m, "bias").data = random_tensor({DType::f32, {3}}, 77);
  m.metadata["metric.accuracy"] = "0.93";
  return m;
}

void add_adapter(Model& m, uint64_t seed) {
  Builder b(m.graph, Composites::keep);
  b.state(StateRole::parameter, random_tensor({DType::f32, {4, 1}}, seed), "adapter");
}

}  // namespace

TEST_CASE("a delta put over its base gives the tuned model") {
  const TempDir dir;
  REQUIRE_OK(save_delta(sample_model(), tuned_model(), dir.file("d")));
  Model m = sample_model();
  REQUIRE_OK(apply_delta(m, dir.file("d")));
  CHECK_EQ(content_hash(m), content_hash(tuned_model()));
  CHECK(same_bits(state(m, "bias").data, random_tensor({DType::f32, {3}}, 77)));
  CHECK_EQ(m.metadata["metric.accuracy"], "0.93");
}

TEST_CASE("a delta holds only what changed") {
  const TempDir dir;
  Model base = sample_model(), tuned = tuned_model();
  for (Model* m : {&base, &tuned}) {
    Builder b(m->graph, Composites::keep);
    b.state(StateRole::parameter, random_tensor({DType::f32, {1000}}, 4), "large");
  }
  REQUIRE_OK(save_delta(base, tuned, dir.file("d")));
  CHECK_LT(std::filesystem::file_size(dir.file("d")), 1000u);
}

TEST_CASE("a delta refuses another base and names both hashes") {
  const TempDir dir;
  REQUIRE_OK(save_delta(sample_model(), tuned_model(), dir.file("d")));
  Model other = sample_model();
  state(other, "w").data = random_tensor({DType::f32, {4, 3}}, 5);
  const std::string before = content_hash(other);
  const Status s = apply_delta(other, dir.file("d"));
  CHECK_ERROR(s, Code::invalid_argument, content_hash(sample_model()));
  CHECK_ERROR(s, Code::invalid_argument, before);
  CHECK_EQ(content_hash(other), before);
}

TEST_CASE("a delta with adapters goes over the base to which they were added again") {
  const TempDir dir;
  Model tuned = sample_model();
  add_adapter(tuned, 21);
  REQUIRE_OK(save_delta(sample_model(), tuned, dir.file("d")));

  Model again = sample_model();
  CHECK_ERROR(apply_delta(again, dir.file("d")), Code::invalid_argument,
              "the model has no 'adapter'");
  add_adapter(again, 22);
  REQUIRE_OK(apply_delta(again, dir.file("d")));
  CHECK(same_bits(state(again, "adapter").data, random_tensor({DType::f32, {4, 1}}, 21)));
}

TEST_CASE("a model that does not come from the base has no delta") {
  const TempDir dir;
  Model base = sample_model();
  add_adapter(base, 1);
  CHECK_ERROR(save_delta(base, sample_model(), dir.file("d")), Code::invalid_argument,
              "has no 'adapter'");
  Model wide = sample_model();
  ValueInfo& bias = state(wide, "bias");
  bias.data = random_tensor({DType::f64, {3}}, 1);
  bias.type = bias.data.type();
  CHECK_ERROR(save_delta(sample_model(), wide, dir.file("d")), Code::invalid_argument,
              "'bias' is f64[3], in the model f32[3]");
}
