// SPDX-License-Identifier: Apache-2.0
// Runs a graph's program with a chosen part of the CPU backend, every buffer fenced by guard bytes.
#pragma once

#include "backends/cpu/cpu_backend.hpp"
#include "hone/model.hpp"
#include "hone/ops.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

enum class Weights : uint8_t { fixed, given };

/// What a second run must repeat bit for bit.
enum class Bits : uint8_t { for_any_threads, for_same_threads };

/// A small graph with its inputs.
class Case {
 public:
  Case() : b_(m_.graph, Composites::keep) {}

  Value input(const Shape& s, const char* name, uint64_t seed);
  Value input(TensorData data, const char* name);
  /// A parameter that no step updates, or one more input.
  Value weights(const Shape& s, Weights w, const char* name = "w", uint64_t seed = 3);
  Builder& builder() { return b_; }

  /// Makes y the graph's output, then runs it with one and with two threads and compares with the
  /// reference kernels, with a second run, and with a run that may not copy weights.
  void check(Value y, const Backend& backend, Bits bits = Bits::for_any_threads);

  /// The same, and the bits are those of the reference kernels.
  void check_bits(Value y, const Backend& backend);
  /// What a run says that is to fail.
  Status failure(const Backend& backend) const;

  /// The kinds of the steps that `backend` makes of the graph: "onednn.conv onednn.reorder".
  std::string steps(const Backend& backend, int threads = 1) const;
  int64_t packed_bytes(const Backend& backend) const;

 private:
  TensorData run(const Backend* backend, int threads, bool pack = true) const;

  Model m_;
  Builder b_;
  std::vector<TensorData> in_;
};

/// The families that are built, by name.
struct NamedBackend {
  const char* name;
  const Backend* backend;
};
std::vector<NamedBackend> built_backends();

}  // namespace hone::test
