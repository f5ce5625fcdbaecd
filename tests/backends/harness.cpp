// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/harness.hpp"

#include <cstring>

#include "core/plan/program.hpp"

namespace hone::test {

namespace {

// Bytes with a fence on both sides that must still stand afterwards. What is inside starts as NaN,
// so that an element that nobody writes shows.
class Fenced {
 public:
  explicit Fenced(int64_t bytes) : size_(static_cast<size_t>(bytes)) {
    block_ = must(TensorData::allocate({DType::u8, {bytes + 2 * static_cast<int64_t>(kFence)}}));
    std::memset(block_.mutable_data(), kMark, size_ + 2 * kFence);
    std::memset(data(), 0xff, size_);
  }
  std::byte* data() { return static_cast<std::byte*>(block_.mutable_data()) + kFence; }
  bool intact() const {
    const unsigned char* p = static_cast<const unsigned char*>(block_.data());
    for (size_t i = 0; i < kFence; ++i)
      if (p[i] != kMark || p[kFence + size_ + i] != kMark) return false;
    return true;
  }

 private:
  static constexpr size_t kFence = 256;
  static constexpr unsigned char kMark = 0x5a;
  size_t size_;
  TensorData block_;
};

class Machine {
 public:
  explicit Machine(const Program& p) : p_(p) {
    for (const Buffer& b : p.buffers) memory_.emplace_back(owns(b) ? b.bytes : 0);
    for (const Step& s : p.steps) scratch_.emplace_back(s.scratch_bytes);
  }
  Status run(std::span<const TensorData> in, ThreadPool& pool) {
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (b.kind != BufferKind::packed) continue;
      const Pack& pack = p_.packs[static_cast<size_t>(b.index)];
      std::vector<const void*> from;
      for (ValueId v : pack.sources) from.push_back(p_.graph.value(v).data.data());
      REQUIRE_OK(pack.fill(from, memory_[i].data()));
    }
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const Step& s = p_.steps[i];
      std::vector<void*> operands;
      for (BufferId id : s.reads) operands.push_back(at(id, in));
      for (BufferId id : s.writes) operands.push_back(at(id, in));
      HONE_TRY(s.kernel->run({operands, scratch_[i].data(), pool}));
    }
    for (const Fenced& f : memory_) CHECK(f.intact());
    for (const Fenced& f : scratch_) CHECK(f.intact());
    return {};
  }
  const void* output() {
    for (size_t i = 0; i < p_.buffers.size(); ++i)
      if (p_.buffers[i].kind == BufferKind::output) return memory_[i].data();
    return nullptr;
  }

 private:
  static bool owns(const Buffer& b) {
    return b.kind == BufferKind::arena || b.kind == BufferKind::packed ||
           b.kind == BufferKind::output;
  }
  void* at(BufferId id, std::span<const TensorData> in) {
    if (id == kNone) return nullptr;
    const Buffer& b = p_.buffers[static_cast<size_t>(id)];
    if (b.kind == BufferKind::input)
      return const_cast<void*>(in[static_cast<size_t>(b.index)].data());
    if (b.kind == BufferKind::constant || b.kind == BufferKind::state)
      return const_cast<void*>(p_.graph.value(b.value).data.data());
    if (b.shares != kNone) return at(b.shares, in);
    return memory_[static_cast<size_t>(id)].data();
  }

  const Program& p_;
  std::vector<Fenced> memory_, scratch_;
};

}  // namespace

Value Case::input(const Shape& s, const char* name, uint64_t seed) {
  return input(random_tensor({DType::f32, s}, seed), name);
}

Value Case::input(TensorData data, const char* name) {
  in_.push_back(std::move(data));
  return b_.input(in_.back().type(), name);
}

Value Case::weights(const Shape& s, Weights w, const char* name, uint64_t seed) {
  if (w == Weights::given) return input(s, name, seed);
  return b_.state(StateRole::parameter, random_tensor({DType::f32, s}, seed), name);
}

TensorData Case::run(const Backend* backend, int threads, bool pack) const {
  const Program p = must(prepare(m_.graph, {.backend = backend, .threads = threads, .pack = pack}));
  const auto pool = make_thread_pool(threads);
  // Twice, in other memory: kernels must follow their operands and packed weights.
  Machine elsewhere(p);
  REQUIRE_OK(elsewhere.run(in_, *pool));
  Machine machine(p);
  REQUIRE_OK(machine.run(in_, *pool));
  const TensorType& type = m_.graph.type(m_.graph.outputs[0].value);
  return must(TensorData::copy_of(
      type, {static_cast<const std::byte*>(machine.output()), static_cast<size_t>(type.bytes())}));
}

void Case::check(Value y, const Backend& backend, Bits bits) {
  constexpr double kTolerance = 1e-4;  // sums of up to some thousand products in another order
  REQUIRE_OK(b_.status());
  b_.output(y, "y");
  const TensorData expected = run(nullptr, 1), one = run(&backend, 1), two = run(&backend, 2);
  CHECK(all_close(one, expected, kTolerance, kTolerance));
  CHECK(all_close(two, expected, kTolerance, kTolerance));
  CHECK(same_bits(run(&backend, 1, false), one));
  CHECK(same_bits(two, bits == Bits::for_any_threads ? one : run(&backend, 2)));
}

void Case::check_bits(Value y, const Backend& backend) {
  b_.output(y, "y");
  const TensorData expected = run(nullptr, 1);
  CHECK(same_bits(run(&backend, 1), expected));
  CHECK(same_bits(run(&backend, 2), expected));
}

Status Case::failure(const Backend& backend) const {
  const Program p = must(prepare(m_.graph, {.backend = &backend}));
  return Machine(p).run(in_, serial_pool());
}

std::string Case::steps(const Backend& backend, int threads) const {
  const Program p = must(prepare(m_.graph, {.backend = &backend, .threads = threads}));
  std::string out;
  for (const Step& s : p.steps) {
    if (!out.empty()) out += ' ';
    out += s.kind;
  }
  return out;
}

int64_t Case::packed_bytes(const Backend& backend) const {
  return must(prepare(m_.graph, {.backend = &backend})).packed_bytes;
}

std::vector<NamedBackend> built_backends() {
  std::vector<NamedBackend> out{{"all", &default_backend()}};
  const NamedBackend parts[] = {{"onednn", cpu::backend_of(cpu::Family::onednn)},
                                {"xnnpack", cpu::backend_of(cpu::Family::xnnpack)},
                                {"gemm", cpu::backend_of(cpu::Family::gemm)},
                                {"vector", cpu::backend_of(cpu::Family::vector)}};
  for (const NamedBackend& part : parts)
    if (part.backend) out.push_back(part);
  return out;
}

}  // namespace hone::test
