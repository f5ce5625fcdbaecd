// SPDX-License-Identifier: Apache-2.0
// Files that are damaged, cut short or forged. Run under a sanitizer these tests also show that
// nothing beyond the bytes is read.
#include <cstring>
#include <limits>

#include "core/base/checksum.hpp"
#include "core/model/preamble.hpp"
#include "hone/builder.hpp"
#include "hone/specialise.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

namespace {

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();

// The file with its preamble changed and the preamble's checksum made right again.
Bytes forge_preamble(const Bytes& file, const std::function<void(Preamble&)>& change) {
  Preamble p;
  std::memcpy(&p, file.data(), sizeof p);
  change(p);
  p.checksum = xxh64(std::as_bytes(std::span(&p, 1)).first(offsetof(Preamble, checksum)));
  Bytes out = file;
  std::memcpy(out.data(), &p, sizeof p);
  return out;
}

using Change = std::function<void(schema::FileT&)>;

Status load_forged(const Change& change, const Bytes& file = file_of(sample_model())) {
  return load_copy(forge(file, change)).status();
}

schema::GraphT& graph_of(schema::FileT& f) { return *f.model->graphs[0]; }
schema::ValueT& value_of(schema::FileT& f, const std::string& name) {
  for (auto& v : graph_of(f).values)
    if (v->name == name) return *v;
  FAIL("no value " << name);
  return *graph_of(f).values[0];
}

}  // namespace

TEST_CASE("a file cut at any length is refused") {
  const Bytes file = file_of(sample_model());
  for (size_t n = 0; n < file.size(); ++n) {
    const Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(n));
    const Status s = load_copy(cut).status();
    CAPTURE(n);
    CHECK(s.code() == Code::invalid_model);
    CHECK(!s.message().empty());
  }
}

TEST_CASE("a file with bytes behind its end is refused") {
  Bytes file = file_of(sample_model());
  file.push_back(std::byte{0});
  CHECK_ERROR(load_copy(file), Code::invalid_model, "its preamble says");
}

TEST_CASE("a file with any one bit flipped is refused") {
  Bytes file = file_of(sample_model());
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    const std::byte mask{static_cast<uint8_t>(1u << (bit % 8))};
    file[bit / 8] ^= mask;
    const Status s = load_copy(file).status();
    CAPTURE(bit);
    CHECK(s.code() == Code::invalid_model);
    file[bit / 8] ^= mask;
  }
  CHECK_OK(load_copy(file));
}

TEST_CASE(
    "a flipped bit in a weight is found at load, named, and passed over when the caller says so") {
  Bytes file = file_of(tiny_model());
  file.back() ^= std::byte{1};
  CHECK_ERROR(load_copy(file), Code::invalid_model, "'w': its data is damaged");
  CHECK_OK(load_copy(file, {.verify_checksums = false}));
}

// With its checksum put right a flipped bit may even make another sound file; it must never crash
// the reader, nor the verifier and the shape rules behind it.
TEST_CASE("a header with any one bit flipped and a right checksum is refused or loads soundly") {
  const Bytes file = file_of(tiny_model());
  Preamble p;
  std::memcpy(&p, file.data(), sizeof p);
  size_t refused = 0;
  for (size_t bit = 0; bit < p.header_size * 8; ++bit) {
    Bytes forged = file;
    forged[p.header_offset + bit / 8] ^= std::byte{static_cast<uint8_t>(1u << (bit % 8))};
    const uint64_t sum = xxh64(std::span(forged).subspan(p.header_offset, p.header_size));
    forged = forge_preamble(forged, [&](Preamble& q) { q.header_checksum = sum; });
    Result<Model> m = load_copy(forged);
    if (m.ok()) {
      CHECK_OK(save_model(*m));
      continue;
    }
    ++refused;
    const Code code = m.status().code();
    const bool is_expected = code == Code::invalid_model || code == Code::unsupported;
    CHECK_MESSAGE(is_expected, m.status().message());
  }
  CHECK_GT(refused, p.header_size * 8 / 2);
}

TEST_CASE("a preamble that lies is refused") {
  const Bytes file = file_of(tiny_model());
  const auto load = [&](const std::function<void(Preamble&)>& change) {
    return load_copy(forge_preamble(file, change)).status();
  };
  CHECK_ERROR(load([](Preamble& p) { p.magic[0] = 'B'; }), Code::invalid_model, "not a Hone file");
  CHECK_ERROR(load([](Preamble& p) { p.version = 2; }), Code::unsupported, "format version 2");
  CHECK_ERROR(load([](Preamble& p) { p.flags = 1; }), Code::unsupported, "flags 1");
  for (uint64_t v : {uint64_t{0}, uint64_t{32}, uint64_t{65}, file.size() + 64, kMax64 - 63}) {
    CAPTURE(v);
    CHECK_ERROR(load([&](Preamble& p) { p.header_offset = v; }), Code::invalid_model, "header");
    CHECK_ERROR(load([&](Preamble& p) { p.data_offset = v; }), Code::invalid_model, "data");
  }
  for (uint64_t v : {uint64_t{0}, uint64_t{15}, file.size(), uint64_t{1} << 31, kMax64})
    CHECK_ERROR(load([&](Preamble& p) { p.header_size = v; }), Code::invalid_model, "header");
  CHECK_ERROR(load([](Preamble& p) { p.file_size = kMax64; }), Code::invalid_model, "says");
}

TEST_CASE("segments that lie are refused before anything is allocated for them") {
  const auto load = [](uint64_t offset, uint64_t size) {
    return load_forged([&](schema::FileT& f) {
      f.segments[0]->offset = offset;
      f.segments[0]->size = size;
    });
  };
  CHECK_ERROR(load(kMax64 - 7, 48), Code::invalid_model, "not a multiple of 64");
  CHECK_ERROR(load(kMax64 - 63, 48), Code::invalid_model, "passes the end");
  CHECK_ERROR(load(kMax64 - 63, kMax64), Code::invalid_model, "passes the end");
  CHECK_ERROR(load(0, kMax64), Code::invalid_model, "passes the end");
  CHECK_ERROR(load(0, uint64_t{1} << 40), Code::invalid_model, "passes the end");
  CHECK_ERROR(load(0, 65), Code::invalid_model, "overlap");
  const Bytes file = forge(file_of(sample_model()), [](auto& f) { f.segments[0]->size = 4; });
  CHECK_ERROR(load_copy(file, {.verify_checksums = false}), Code::invalid_model,
              "needs 48 bytes, its segment 0 has 4");
}

TEST_CASE("tensors that name no segment, or one of another size, are refused") {
  for (int32_t segment : {-1, -2, 99, std::numeric_limits<int32_t>::max()})
    CHECK_ERROR(load_forged([&](schema::FileT& f) { value_of(f, "w").segment = segment; }),
                Code::invalid_model, format("segment {}, the file has", segment));
  CHECK_ERROR(load_forged([](schema::FileT& f) { f.segments.clear(); }), Code::invalid_model, "");
  CHECK_ERROR(load_forged([](schema::FileT& f) { value_of(f, "x").segment = 0; }),
              Code::invalid_model, "neither constant nor state");
}

TEST_CASE("dimensions whose product wraps or that name nothing are refused") {
  const auto load = [](std::vector<int64_t> dims, const std::string& name) {
    return load_forged([&](schema::FileT& f) { value_of(f, name).dims = dims; });
  };
  for (const std::string name : {"w", "x"}) {
    CHECK_ERROR(load({kMaxInt64, 2}, name), Code::invalid_model, "too large");
    CHECK_ERROR(load({int64_t{1} << 32, int64_t{1} << 32}, name), Code::invalid_model, "too large");
    CHECK_ERROR(load({0, kMaxInt64, kMaxInt64}, name), Code::invalid_model, "too large");
    CHECK_ERROR(load({kMinInt64}, name), Code::invalid_model, "names dimension");
    CHECK_ERROR(load({-2}, name), Code::invalid_model, "names dimension 1 of 1");
    CHECK_ERROR(load(std::vector<int64_t>(9, 1), name), Code::invalid_model, "at most 8");
    CHECK_ERROR(load(std::vector<int64_t>(100000, 1), name), Code::invalid_model, "at most 8");
  }
  CHECK_ERROR(load({-1, 3}, "w"), Code::invalid_model, "no definite shape");
  CHECK_ERROR(load({4, 4}, "w"), Code::invalid_model, "needs 64 bytes");
}

TEST_CASE("enumerations that are out of range are refused") {
  CHECK_ERROR(load_forged([](auto& f) { f.kind = static_cast<schema::FileKind>(9); }),
              Code::invalid_model, "unknown kind");
  CHECK_ERROR(load_forged([](auto& f) { f.kind = schema::FileKind::checkpoint; }),
              Code::invalid_model, "a checkpoint, not a model");
  CHECK_ERROR(load_forged([](auto& f) { value_of(f, "w").dtype = static_cast<schema::DType>(9); }),
              Code::invalid_model, "unknown element type 9");
  CHECK_ERROR(load_forged([](auto& f) { value_of(f, "w").role = static_cast<schema::Role>(4); }),
              Code::invalid_model, "unknown role 4");
  CHECK_ERROR(
      load_forged([](auto& f) { value_of(f, "w").kind = static_cast<schema::ValueKind>(4); }),
      Code::invalid_model, "unknown kind 4");
}

TEST_CASE("indices that lead nowhere are refused") {
  const auto node = [](schema::FileT& f) -> schema::NodeT& { return *graph_of(f).nodes[0]; };
  for (int32_t id : {-2, 1000, std::numeric_limits<int32_t>::min()}) {
    CAPTURE(id);
    CHECK_ERROR(load_forged([&](auto& f) { node(f).inputs[0] = id; }), Code::invalid_model,
                "exist");
    CHECK_ERROR(load_forged([&](auto& f) { node(f).outputs[0] = id; }), Code::invalid_model,
                "exist");
    CHECK_ERROR(load_forged([&](auto& f) { graph_of(f).inputs[0] = id; }), Code::invalid_model,
                "exist");
    CHECK_ERROR(load_forged([&](auto& f) { graph_of(f).outputs[0]->value = id; }),
                Code::invalid_model, "exist");
    CHECK_ERROR(load_forged([&](auto& f) { graph_of(f).updates[0]->state = id; }),
                Code::invalid_model, "exist");
    CHECK_ERROR(load_forged([&](auto& f) { graph_of(f).updates[0]->next = id; }),
                Code::invalid_model, "exist");
  }
  CHECK_ERROR(load_forged([&](auto& f) { node(f).op = 99; }), Code::invalid_model,
              "is operator 99");
  CHECK_ERROR(load_forged([](auto& f) { f.model->signatures[0]->graph = 1; }), Code::invalid_model,
              "'main' is graph 1");
}

TEST_CASE("graphs whose nodes are out of order, doubled or cyclic are refused") {
  CHECK_ERROR(load_forged([](auto& f) { std::swap(graph_of(f).nodes[0], graph_of(f).nodes[1]); }),
              Code::invalid_model, "before it is made");
  CHECK_ERROR(
      load_forged([](auto& f) { graph_of(f).nodes[0]->inputs = graph_of(f).nodes[0]->outputs; }),
      Code::invalid_model, "before it is made");
  CHECK_ERROR(
      load_forged([](auto& f) { graph_of(f).nodes[1]->outputs = graph_of(f).nodes[0]->outputs; }),
      Code::invalid_model, "already given otherwise");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).nodes[0]->outputs = {0}; }),
              Code::invalid_model, "already given otherwise");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).nodes[0]->outputs.clear(); }),
              Code::invalid_model, "");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).nodes[0]->inputs.clear(); }),
              Code::invalid_model, "inputs");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).nodes[0]->inputs[1] = -1; }),
              Code::invalid_model, "input 1 is missing");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).nodes.pop_back(); }), Code::invalid_model, "");
}

TEST_CASE("what every graph needs cannot be missing") {
  CHECK_ERROR(load_forged([](auto& f) { f.model.reset(); }), Code::invalid_model, "has none");
  CHECK_ERROR(load_forged([](auto& f) { f.model->graphs.clear(); }), Code::invalid_model, "has 0");
  CHECK_ERROR(load_forged([](auto& f) { f.model->signatures.clear(); }), Code::invalid_model,
              "'main'");
  CHECK_ERROR(load_forged([](auto& f) { f.model->ops.clear(); }), Code::invalid_model,
              "is operator");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).values.clear(); }), Code::invalid_model,
              "exist");
  CHECK_ERROR(load_forged([](auto& f) {
                graph_of(f).outputs.clear();
                f.model->signatures[0]->outputs.clear();
              }),
              Code::invalid_model, "no outputs");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).inputs.clear(); }), Code::invalid_model, "");
  CHECK_ERROR(load_forged([](auto& f) { value_of(f, "x").name.clear(); }), Code::invalid_model, "");
  CHECK_ERROR(load_forged([](auto& f) { value_of(f, "w").name.clear(); }), Code::invalid_model,
              "needs a name");
  CHECK_ERROR(load_forged([](auto& f) { graph_of(f).dim_names.clear(); }), Code::invalid_model,
              "names dimension");
  CHECK_ERROR(load_forged([](auto& f) { value_of(f, "w").typed = false; }), Code::invalid_model,
              "type");
}

TEST_CASE("names that must be unique are") {
  CHECK_ERROR(load_forged([](auto& f) { value_of(f, "bias").name = "w"; }), Code::invalid_model,
              "'w' is used twice");
  CHECK_ERROR(load_forged([](auto& f) { f.model->ops.push_back(std::make_unique<schema::OpT>()); }),
              Code::unsupported, "''");
  CHECK_ERROR(load_forged([](auto& f) {
                f.metadata.push_back(std::make_unique<schema::KeyValueT>(*f.metadata[0]));
              }),
              Code::invalid_model, "appears twice");
  CHECK_ERROR(
      load_forged([](auto& f) {
        graph_of(f).outputs.push_back(std::make_unique<schema::OutputT>(*graph_of(f).outputs[0]));
        f.model->signatures[0]->outputs.push_back(
            std::make_unique<schema::NameT>(*f.model->signatures[0]->outputs[0]));
      }),
      Code::invalid_model, "two outputs have the name 'y'");
  CHECK_ERROR(
      load_forged([](auto& f) {
        graph_of(f).updates.push_back(std::make_unique<schema::UpdateT>(*graph_of(f).updates[0]));
      }),
      Code::invalid_model, "'seen' is updated twice");
}

TEST_CASE("types that contradict the operator's rule are refused") {
  const Bytes file = file_of(tiny_model());
  CHECK_ERROR(load_forged(
                  [](auto& f) {
                    graph_of(f).values.back()->dims = {2, 3};
                  },
                  file),
              Code::invalid_model, "its rule gives");
  CHECK_ERROR(load_forged(
                  [](auto& f) {
                    value_of(f, "x").dims = {2, 3};
                  },
                  file),
              Code::invalid_model, "matmul");
  const Status s = load_forged([](auto& f) { graph_of(f).updates[0]->next = 1; });
  CHECK_ERROR(s, Code::invalid_model, "state 'seen' is i64[], its update f32[4, 3]");
}

// Where types are not known yet the file cannot be caught lying at load: specialisation does it.
TEST_CASE("contradictions in what has no type yet are refused when the shapes are known") {
  const auto specialised = [](const Change& change) {
    const Model m = must(load_copy(forge(file_of(sample_model()), change)));
    return specialise(m.graph, std::vector<Shape>{{5, 4}}).status();
  };
  CHECK_OK(specialised([](auto&) {}));
  CHECK_ERROR(specialised([](auto& f) {
                auto& values = graph_of(f).values;
                values.push_back(std::make_unique<schema::ValueT>());
                values.back()->typed = false;
                graph_of(f).nodes[0]->outputs.push_back(static_cast<int32_t>(values.size() - 1));
              }),
              Code::invalid_argument, "has 2 outputs, its rule gives 1");
  CHECK_ERROR(
      specialised([](auto& f) { graph_of(f).updates[0]->next = graph_of(f).nodes[0]->outputs[0]; }),
      Code::invalid_argument, "state 'seen' is i64[], its update f32[5, 3]");
}

TEST_CASE("bytes of a bool other than 0 and 1 are refused") {
  Model m = tiny_model();
  Builder b(m.graph, Composites::keep);
  b.state(StateRole::buffer, tensor_of<bool>({3}, {0, 1, 1}), "mask");
  const Bytes file = file_of(m);
  CHECK_OK(load_copy(file));
  CHECK_ERROR(load_forged(
                  [](auto& f) {
                    auto& mask = value_of(f, "mask");
                    mask.segment = value_of(f, "w").segment;
                    mask.dims = {16};
                  },
                  file),
              Code::invalid_model, "bytes other than 0 and 1");
}

TEST_CASE("features that a reader may not pass over are refused by name") {
  const Status s = load_forged([](auto& f) {
    for (const char* name : {"sparse_weights", "int4"}) {
      f.required.push_back(std::make_unique<schema::NameT>());
      f.required.back()->text = name;
    }
  });
  CHECK_ERROR(s, Code::unsupported, "'sparse_weights', 'int4'");
}

// One long string that a thousand values name would unpack to a thousand times its size.
TEST_CASE("a header that unpacks to more than its size is refused") {
  flatbuffers::FlatBufferBuilder b;
  const auto text = b.CreateString(std::string(1 << 16, 'a'));
  std::vector<flatbuffers::Offset<schema::KeyValue>> pairs;
  for (int i = 0; i < 4000; ++i)
    pairs.push_back(schema::CreateKeyValue(b, b.CreateString(std::to_string(i)), text));
  const auto table = b.CreateVector(pairs);
  schema::FinishFileBuffer(b, schema::CreateFile(b, schema::FileKind::model, 0, 0, table));
  CHECK_ERROR(load_copy(assemble(b)), Code::invalid_model, "again and again");
}

// One table in a vector of a million entries: verification must not visit it a million times for
// each of a million owners.
TEST_CASE("a header that names one table again and again is refused") {
  flatbuffers::FlatBufferBuilder b;
  const auto value = schema::CreateValue(b);
  const auto values = b.CreateVector(std::vector(1000, value));
  const auto graph = schema::CreateGraph(b, 0, values);
  const auto graphs = b.CreateVector(std::vector(1000, graph));
  const auto model = schema::CreateModel(b, 0, graphs);
  schema::FinishFileBuffer(b, schema::CreateFile(b, schema::FileKind::model, 0, 0, 0, 0, model));
  CHECK_ERROR(load_copy(assemble(b)), Code::invalid_model, "not a well-formed FlatBuffer");
}
