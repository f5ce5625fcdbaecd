// SPDX-License-Identifier: Apache-2.0
// Weights by name.
#include "hone/weights.hpp"

#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

TEST_CASE("weights of another floating-point type are converted, of another shape refused") {
  Model m = sample_model();
  std::vector<NamedTensor> wide = weights(m);
  for (NamedTensor& t : wide)
    if (is_float(t.data.dtype())) t.data = must(cast(t.data, DType::f64));
  wide.push_back({"bn.num_batches_tracked", tensor_of<int64_t>({}, {3})});
  REQUIRE_OK(set_weights(m, wide));
  CHECK_EQ(content_hash(m), content_hash(sample_model()));
  wide[0].data = random_tensor({DType::f32, {7}}, 1);
  CHECK_ERROR(set_weights(m, wide), Code::invalid_argument, "is f32[7], the model has");
  CHECK_EQ(content_hash(m), content_hash(sample_model()));
}

TEST_CASE("weights that are missing, left over or there twice are all named") {
  Model m = sample_model();
  std::vector<NamedTensor> some = weights(m);
  const std::string lost = some.back().name;
  some.back().name = "other";
  some.push_back(some.front());
  const Status s = set_weights(m, some);
  CHECK_ERROR(s, Code::invalid_argument, "'" + lost + "' is missing");
  CHECK_ERROR(s, Code::invalid_argument, "'other' is not in the model");
  CHECK_ERROR(s, Code::invalid_argument, "'" + some.front().name + "' is there twice");
}

TEST_CASE("names change by the first renaming of their form") {
  const TensorData t = tensor_of<float>({1}, {0});
  std::vector<NamedTensor> list = {{"model.a.weight", t}, {"model.head", t}, {"x.gamma", t},
                                   {"gamma", t},          {"model.", t},     {"mode", t}};
  std::vector<Renaming> renamings;
  for (const char* text : {"model.head=out", "model.*=*", "*.gamma=*.weight"})
    renamings.push_back(must(parse_renaming(text)));
  rename(list, renamings);
  std::vector<std::string> names;
  for (const NamedTensor& n : list) names.push_back(n.name);
  CHECK_EQ(names, std::vector<std::string>{"a.weight", "out", "x.weight", "gamma", "", "mode"});
}

TEST_CASE("a renaming needs both sides and one star on each") {
  for (const char* text : {"", "a", "=a", "a=", "a*=b", "a=b*", "*a*=*", "*=**"}) {
    CAPTURE(text);
    CHECK_ERROR(parse_renaming(text), Code::invalid_argument, "renaming");
  }
}
