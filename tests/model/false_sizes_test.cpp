// SPDX-License-Identifier: Apache-2.0
// C30: a sound file with one tensor, f32[2, 2], and one field at a time that claims something else.
// It must be refused before anything larger than the file is allocated.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/checksum.hpp"
#include "core/model/preamble.hpp"
#include "hone/builder.hpp"
#include "hone/control.hpp"
#include "hone/ops.hpp"
#include "tests/model/largest_allocation.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

namespace {

// The error of a copy of the file. The copy is as large as the file: nothing but a sentence may be
// larger.
Status refusal(const Bytes& file, const LoadOptions& options = {}) {
  start_watching_allocations();
  Status s = load_copy(file, options).status();
  constexpr size_t kSentence = 256;
  CHECK_LE(largest_allocation(), std::max(file.size(), kSentence));
  return s;
}

using Change = std::function<void(schema::FileT&)>;
Status refusal(const Change& change, const LoadOptions& options = {}) {
  return refusal(forge(file_of(tiny_model()), change), options);
}

schema::GraphT& graph_of(schema::FileT& f, size_t i = 0) { return *f.model->graphs[i]; }
schema::ValueT& weight_of(schema::FileT& f) {
  for (auto& v : graph_of(f).values)
    if (v->name == "w") return *v;
  FAIL("no weight");
  return *graph_of(f).values[0];
}

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

// y = x > 0 ? tanh(tanh(x)) : -x, so that the file holds graphs within the graph.
Model with_branches() {
  const auto body = [](int links) {
    auto g = std::make_shared<Graph>();
    Builder b(*g, Composites::keep);
    Value v = b.untyped_input("in");
    for (int i = 0; i < links; ++i) v = b.emit(op::tanh, {v});
    b.output(b.emit(op::neg, {v}), "out");
    REQUIRE_OK(b.status());
    return g;
  };
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {}}, "x");
  const Value in[] = {b.emit(op::greater, {x, b.scalar(0, DType::f32)}), x};
  b.output(b.emit_all(op::if_else, in, IfAttrs{body(3), body(1)})[0], "y");
  REQUIRE_OK(b.status());
  return m;
}

}  // namespace

TEST_CASE("C30: dimensions whose product wraps are refused") {
  CHECK_OK(refusal([](auto&) {}));
  const auto with = [](std::vector<int64_t> dims) {
    return refusal([&](auto& f) { weight_of(f).dims = dims; });
  };
  CHECK_ERROR(with({kMaxInt64, 2}), Code::invalid_model, "too large");
  CHECK_ERROR(with({int64_t{1} << 32, int64_t{1} << 32}), Code::invalid_model, "too large");
}

TEST_CASE("C30: a segment that begins beyond all memory is refused") {
  for (const uint64_t offset : {kMax64 - 7, kMax64 - 63})
    CHECK_ERROR(refusal([&](auto& f) { f.segments[0]->offset = offset; }), Code::invalid_model,
                offset % 64 ? "not a multiple of 64" : "passes the end");
}

TEST_CASE("C30: four bytes for a tensor of sixteen are refused") {
  Model m = tiny_model();
  for (ValueInfo& v : m.graph.values)
    if (v.name == "w") v.data = tensor_of<float>({2, 2}, {1, 0, 0, 0});
  Bytes file = forge(file_of(m), [](auto& f) { f.segments[0]->size = 4; });
  CHECK_ERROR(refusal(file, {.verify_checksums = false}), Code::invalid_model,
              "needs 16 bytes, its segment 0 has 4");
  CHECK(refusal(file).code() == Code::invalid_model);
  // The same when the other twelve are not there at all.
  Preamble p;
  std::memcpy(&p, file.data(), sizeof p);
  p.file_size -= 12;
  p.checksum = xxh64(std::as_bytes(std::span(&p, 1)).first(offsetof(Preamble, checksum)));
  std::memcpy(file.data(), &p, sizeof p);
  file.resize(file.size() - 12);
  CHECK_ERROR(refusal(file, {.verify_checksums = false}), Code::invalid_model,
              "needs 16 bytes, its segment 0 has 4");
}

TEST_CASE("C30: a missing name and a missing list of outputs are refused") {
  CHECK_ERROR(refusal([](auto& f) { weight_of(f).name.clear(); }), Code::invalid_model,
              "needs a name");
  CHECK_ERROR(refusal([](auto& f) { f.model->signatures[0]->name.clear(); }), Code::invalid_model,
              "'main'");
  CHECK_ERROR(refusal([](auto& f) { graph_of(f).outputs.clear(); }), Code::invalid_model,
              "outputs");
  CHECK_ERROR(refusal([](auto& f) { f.model->signatures[0]->outputs.clear(); }),
              Code::invalid_model, "outputs");
}

TEST_CASE("C30: a graph within the graph that is cut at half is refused") {
  const Bytes file = file_of(with_branches());
  CHECK_OK(refusal(file));
  const auto cut = [&](const std::function<void(schema::GraphT&)>& change) {
    return refusal(forge(file, [&](schema::FileT& f) {
      size_t longest = 0;
      for (size_t i = 0; i < f.model->graphs.size(); ++i)
        if (graph_of(f, i).nodes.size() > graph_of(f, longest).nodes.size()) longest = i;
      REQUIRE_EQ(graph_of(f, longest).nodes.size(), 4);
      change(graph_of(f, longest));
    }));
  };
  CHECK_ERROR(cut([](auto& g) { g.nodes.resize(2); }), Code::invalid_model, "");
  CHECK_ERROR(cut([](auto& g) { g.values.resize(g.values.size() / 2); }), Code::invalid_model,
              "exist");
  CHECK_ERROR(refusal(forge(file, [](auto& f) { f.model->graphs.resize(2); })), Code::invalid_model,
              "graph");
}

TEST_CASE("C30: tensors whose bytes overlap are refused") {
  Model m = tiny_model();
  Builder b(m.graph, Composites::keep);
  b.state(StateRole::parameter, tensor_of<float>({4}, {5, 6, 7, 8}), "other");
  const Bytes file = file_of(m);
  CHECK_OK(refusal(file));
  CHECK_ERROR(refusal(forge(file, [](auto& f) { f.segments[0]->size = 68; })), Code::invalid_model,
              "overlap");
  CHECK_ERROR(refusal(forge(file, [](auto& f) { f.segments[1]->offset = f.segments[0]->offset; })),
              Code::invalid_model, "overlap");
}

TEST_CASE("C30: nothing, one byte, and all but one byte are refused") {
  const Bytes file = file_of(tiny_model());
  for (const size_t n : {size_t{0}, size_t{1}, file.size() - 1}) {
    CAPTURE(n);
    const Status s = refusal(Bytes(file.begin(), file.begin() + static_cast<ptrdiff_t>(n)));
    CHECK(s.code() == Code::invalid_model);
    CHECK_FALSE(s.message().empty());
  }
  // The header itself may be cut too, with a preamble that says so.
  Preamble p;
  std::memcpy(&p, file.data(), sizeof p);
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, p.header_size / 2}) {
    CAPTURE(size);
    Preamble q = p;
    q.header_size = size;
    q.header_checksum = xxh64(std::span(file).subspan(p.header_offset, size));
    q.checksum = xxh64(std::as_bytes(std::span(&q, 1)).first(offsetof(Preamble, checksum)));
    Bytes forged = file;
    std::memcpy(forged.data(), &q, sizeof q);
    CHECK_ERROR(refusal(forged), Code::invalid_model, "header");
  }
}
