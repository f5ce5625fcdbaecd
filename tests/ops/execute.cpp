// SPDX-License-Identifier: Apache-2.0
// Guarded kernels and a plain interpreter.
#include "tests/ops/execute.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "hone/thread_pool.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

namespace {

constexpr size_t kGuard = 256;
constexpr uint8_t kGuardByte = 0xA5;

// Bytes with a guard on each side.
class Guarded {
 public:
  Guarded(size_t size, uint8_t fill)
      : size_(size),
        data_(must(TensorData::allocate({DType::u8, {static_cast<int64_t>(size + 2 * kGuard)}}))) {
    std::memset(data_.mutable_data(), kGuardByte, size + 2 * kGuard);
    if (size > 0) std::memset(bytes(), fill, size);
  }
  std::byte* bytes() { return static_cast<std::byte*>(data_.mutable_data()) + kGuard; }
  bool intact() const {
    const uint8_t* p = data_.as<uint8_t>();
    for (size_t i = 0; i < kGuard; ++i)
      if (p[i] != kGuardByte || p[kGuard + size_ + i] != kGuardByte) return false;
    return true;
  }

 private:
  size_t size_;
  TensorData data_;
};

}  // namespace

Result<std::vector<TensorData>> run_guarded(const OpDef& op, const Attrs& attrs,
                                            std::span<const TensorData> inputs,
                                            std::span<const TensorType> out_types,
                                            std::span<const Alias> aliases, uint8_t garbage) {
  std::vector<Guarded> in_buffers, out_buffers;
  std::vector<ConstTensorView> in;
  std::vector<const TensorType*> in_types, out_type_ptrs;
  std::vector<bool> overwritten(inputs.size(), false);
  in_buffers.reserve(inputs.size());
  out_buffers.reserve(out_types.size());
  for (const TensorData& t : inputs) {
    in_buffers.emplace_back(t.defined() ? static_cast<size_t>(t.bytes()) : 0, garbage);
    if (t.defined() && t.bytes() > 0)
      std::memcpy(in_buffers.back().bytes(), t.data(), static_cast<size_t>(t.bytes()));
    in.push_back({t.type(), t.defined() ? in_buffers.back().bytes() : nullptr});
    in_types.push_back(t.defined() ? &t.type() : nullptr);
  }
  std::vector<TensorView> out;
  for (size_t k = 0; k < out_types.size(); ++k) {
    out_buffers.emplace_back(static_cast<size_t>(out_types[k].bytes()), garbage);
    out.push_back({out_types[k], out_buffers.back().bytes()});
    out_type_ptrs.push_back(&out_types[k]);
  }
  for (const Alias& a : aliases) {
    out[static_cast<size_t>(a.out)].data = in_buffers[static_cast<size_t>(a.in)].bytes();
    overwritten[static_cast<size_t>(a.in)] = true;
  }
  const int64_t scratch_bytes = op.scratch ? op.scratch({in_types, out_type_ptrs, attrs}) : 0;
  REQUIRE_GE(scratch_bytes, 0);
  Guarded scratch(static_cast<size_t>(scratch_bytes), garbage);
  const Status status = op.kernel({in, out, attrs, scratch.bytes(), serial_pool()});

  CHECK_MESSAGE(scratch.intact(), "the kernel wrote outside its scratch");
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHECK_MESSAGE(in_buffers[i].intact(), "the kernel wrote round input " << i);
    if (overwritten[i] || !inputs[i].defined() || inputs[i].bytes() == 0) continue;
    CHECK_MESSAGE(std::memcmp(in_buffers[i].bytes(), inputs[i].data(),
                              static_cast<size_t>(inputs[i].bytes())) == 0,
                  "the kernel changed input " << i);
  }
  for (size_t k = 0; k < out.size(); ++k)
    CHECK_MESSAGE(out_buffers[k].intact(), "the kernel wrote round output " << k);
  if (!status.ok()) return status;
  std::vector<TensorData> results;
  for (const TensorView& t : out) {
    const auto* bytes = static_cast<const std::byte*>(t.data);
    results.push_back(
        must(TensorData::copy_of(t.type, {bytes, static_cast<size_t>(t.type.bytes())})));
  }
  return results;
}

Result<std::vector<TensorData>> run_graph(const Graph& g, std::span<const TensorData> inputs,
                                          std::span<const ValueId> wanted) {
  std::vector<TensorData> values(g.values.size());
  for (size_t i = 0; i < g.values.size(); ++i) values[i] = g.values[i].data;
  REQUIRE_EQ(inputs.size(), g.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs[i])] = inputs[i];
  for (const Node& n : g.nodes) {
    std::vector<TensorData> in;
    std::vector<TensorType> out_types;
    for (ValueId v : n.inputs)
      in.push_back(v == kNone ? TensorData() : values[static_cast<size_t>(v)]);
    for (ValueId v : n.outputs) out_types.push_back(g.type(v));
    HONE_ASSIGN(std::vector<TensorData> out,
                run_reference(*n.op, n.attrs, in, out_types, serial_pool()));
    for (size_t k = 0; k < out.size(); ++k)
      values[static_cast<size_t>(n.outputs[k])] = std::move(out[k]);
  }
  std::vector<TensorData> results;
  for (ValueId v : wanted) results.push_back(values[static_cast<size_t>(v)]);
  return results;
}

}  // namespace hone::test
