// SPDX-License-Identifier: Apache-2.0
// What a model file keeps, and how it comes back.
#include "hone/model.hpp"

#include "hone/op_table.hpp"
#include "hone/ops.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

TEST_CASE("a model comes back as it was saved") {
  Model m = sample_model();
  m.plans = {{"step", ~uint64_t{0}, 1 << 20, 4096, {0, 1, 0, 2}, {0, 64, 128}}, {}};
  const TempDir dir;
  REQUIRE_OK(save_model(m, dir.file("m.hone")));
  const Model back = must(load_model(dir.file("m.hone")));
  CHECK_EQ(print(back.graph), print(m.graph));
  CHECK_EQ(back.metadata, m.metadata);
  REQUIRE_EQ(back.plans.size(), 2);
  CHECK_EQ(back.plans[0].name, "step");
  CHECK_EQ(back.plans[0].problem, ~uint64_t{0});
  CHECK_EQ(back.plans[0].room, 1 << 20);
  CHECK_EQ(back.plans[0].bytes, 4096);
  CHECK(back.plans[0].runs == m.plans[0].runs);
  CHECK(back.plans[0].offsets == m.plans[0].offsets);
  CHECK_EQ(back.graph.dim_names, m.graph.dim_names);
  REQUIRE_EQ(back.graph.values.size(), m.graph.values.size());
  for (size_t i = 0; i < m.graph.values.size(); ++i) {
    const ValueInfo &a = m.graph.values[i], &b = back.graph.values[i];
    CAPTURE(i);
    CHECK(a.kind == b.kind);
    CHECK(a.role == b.role);
    CHECK_EQ(a.name, b.name);
    CHECK_EQ(a.trainable, b.trainable);
    CHECK_EQ(a.typed, b.typed);
    if (a.typed) CHECK(a.type == b.type);
    if (a.data.defined()) CHECK(same_bits(a.data, b.data));
  }
  CHECK(back.graph.outputs[0].declared == m.graph.outputs[0].declared);
  CHECK(back.graph.outputs[0].has_declared);
  REQUIRE_EQ(back.graph.updates.size(), 1u);
  CHECK_EQ(back.graph.updates[0].next, m.graph.updates[0].next);
}

TEST_CASE("a loaded model computes the same bits") {
  const Model m = sample_model();
  const TensorData x = random_tensor({DType::f32, {5, 4}}, 9);
  CHECK(same_bits(run(must(load_copy(file_of(m))), {x})[0], run(m, {x})[0]));
}

TEST_CASE("saving the same model twice gives the same bytes, also after loading it") {
  const Bytes first = file_of(sample_model());
  CHECK(first == file_of(sample_model()));
  CHECK(first == file_of(must(load_copy(first))));
}

TEST_CASE("weights are used where they lie in the file, aligned, and keep it mapped") {
  const TempDir dir;
  REQUIRE_OK(save_model(sample_model(), dir.file("m.hone")));
  Model m = must(load_model(dir.file("m.hone")));
  const TensorData w = find_state(m, "w")->data;
  const TensorData again = m.graph.value(m.graph.find("w_again")).data;
  CHECK_EQ(reinterpret_cast<uintptr_t>(w.data()) % kAlignment, 0u);
  CHECK(w.shares_bytes_with(again));
  CHECK(TensorData(w).mutable_data() == nullptr);
  m = Model();
  CHECK(same_bits(w, find_state(sample_model(), "w")->data));
}

TEST_CASE("a file in memory is used in place when aligned and copied when not") {
  const Bytes file = file_of(tiny_model());
  std::vector<std::byte> room(file.size() + 2 * kAlignment);
  for (size_t shift : {0, 1, 8, 63}) {
    const size_t misaligned = reinterpret_cast<uintptr_t>(room.data()) % kAlignment;
    std::byte* at = room.data() + (kAlignment - misaligned) % kAlignment + shift;
    std::copy(file.begin(), file.end(), at);
    const Model m = must(load_model({at, file.size()}, nullptr));
    const std::byte* w = find_state(m, "w")->data.as_bytes().data();
    CHECK_EQ(w >= room.data() && w < room.data() + room.size(), shift == 0);
    CHECK(same_bits(find_state(m, "w")->data, tensor_of<float>({2, 2}, {1, 2, 3, 4})));
  }
}

TEST_CASE("empty tensors and scalars are saved") {
  Model m;
  Builder b(m.graph, Composites::keep);
  b.state(StateRole::buffer, must(TensorData::zeros({DType::f32, {0, 3}})), "nothing");
  b.output(b.state(StateRole::parameter, tensor_of<double>({}, {2.5}), "scalar"), "y");
  const Model back = must(load_copy(file_of(m)));
  CHECK_EQ(find_state(back, "scalar")->data.at(0), 2.5);
  CHECK(find_state(back, "nothing")->data.defined());
  CHECK(find_state(back, "nothing")->type.shape == Shape{0, 3});
}

TEST_CASE("find_state finds states only") {
  const Model m = sample_model();
  CHECK(find_state(m, "w") != nullptr);
  CHECK(find_state(m, "x") == nullptr);
  CHECK(find_state(m, "nobody") == nullptr);
}

TEST_CASE("the content hash depends on weights, names and types, not on how they are stored") {
  const Model m = sample_model();
  const std::string hash = content_hash(m);
  CHECK_EQ(hash.size(), 64u);
  CHECK_EQ(content_hash(must(load_copy(file_of(m)))), hash);
  Model changed = sample_model();
  changed.graph.value(changed.graph.find("w")).data = random_tensor({DType::f32, {4, 3}}, 3);
  CHECK_NE(content_hash(changed), hash);
  changed = sample_model();
  changed.graph.value(changed.graph.find("w")).name = "v";
  CHECK_NE(content_hash(changed), hash);
}

TEST_CASE("a graph that could not be loaded again is not saved") {
  const TempDir dir;
  Model m = sample_model();
  m.graph.outputs[0].name = "";
  CHECK_ERROR(save_model(m, dir.file("m.hone")), Code::invalid_argument, "an output has no name");
  m = sample_model();
  m.graph.value(m.graph.find("bias")).name = "w";
  CHECK_ERROR(save_model(m, dir.file("m.hone")), Code::invalid_argument, "'w' is used twice");
  CHECK_ERROR(load_model(dir.file("m.hone")), Code::not_found, "m.hone");
}
