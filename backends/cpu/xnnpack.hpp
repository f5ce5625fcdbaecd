// SPDX-License-Identifier: Apache-2.0
// Inference on XNNPACK: f32 convolutions and matrix products whose weights stay fixed.
#pragma once

#if HONE_HAVE_XNNPACK

#include "backends/cpu/normalisation.hpp"
#include "hone/tensor_data.hpp"
#include "xnnpack.h"

namespace hone::cpu {

/// Convolution over one or two axes, and matmul with one matrix on the right.
bool xnnpack_accepts_conv(const Graph& g, const Node& node);
bool xnnpack_accepts_matmul(const Graph& g, const Node& node);

Status xnnpack_lower_matmul(Lowering& to, NodeId node);
Status xnnpack_lower_conv(Region& region, const Group& group);

/// XNNPACK may read so far past what it is given.
inline constexpr int64_t kXnnpackSlack = XNN_EXTRA_BYTES;
static_assert(kXnnpackSlack <= kImageSlack);

Status xnnpack_status(xnn_status s, std::string_view what);
/// Whether XNNPACK knows this processor.
bool xnnpack_available();
/// Whether the node's weights and bias (inputs 1 and 2) can be packed before the program runs.
bool fixed_weights(const Graph& g, const Node& node);

struct DeleteOperator {
  void operator()(xnn_operator_t op) const { xnn_delete_operator(op); }
};
using XnnpackOperator = std::unique_ptr<xnn_operator, DeleteOperator>;

/// The packed weights of one operator: XNNPACK takes it for a cache and leaves the place to us.
/// Until there is a place, an operator that is made is refused the memory to pack into, which tells
/// how much it wants; one that is made with `take_for_packed` does not pack at all.
class PackedWeights {
 public:
  PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  xnn_weights_cache_t cache() { return &provider_; }
  /// Where they are: XNNPACK asks when an operator is reshaped.
  void* place() const { return place_; }
  void set_place(void* at, int64_t room) { place_ = at, room_ = room; }
  void take_for_packed() { packed_ = true; }
  /// Bytes that packing takes; known once an operator was to be made.
  int64_t bytes() const { return bytes_; }

 private:
  void* reserve(size_t bytes);

  xnn_weights_cache_provider provider_{};
  void* place_ = nullptr;
  int64_t room_ = 0, bytes_ = 0;
  bool packed_ = false;
};

/// Makes an operator; it packs `weights`, in XNNPACK's order, and `bias` (or null) into the cache.
using MakeOperator = std::function<xnn_status(const float* weights, const float* bias,
                                              xnn_weights_cache_t, xnn_operator_t*)>;
/// Brings weights into XNNPACK's order; empty where they are in it.
using OrderWeights = std::function<void(const float* from, float* to)>;

/// An operator, and what its weights come from.
struct Prepared {
  std::unique_ptr<PackedWeights> weights;  ///< Before the operator that uses it.
  XnnpackOperator op;
  /// The packed weights, or where memory is too short for such copies, what `fill` packs at each
  /// run into the first `scratch` bytes of the step's scratch.
  std::vector<BufferId> sources;
  PackFn fill;
  int64_t scratch = 0;

  /// Where the packed weights are, made if need be. `from`: the operands of `sources`.
  Result<void*> place(std::span<void* const> from, std::byte* scratch_memory) const;
};
/// `norm`: what is folded into the weights, or null.
Result<Prepared> prepare_operator(Lowering& to, const Node& node, MakeOperator make,
                                  OrderWeights order, const Normalisation* norm = nullptr);

/// Says how many threads there will be when XNNPACK asks, while a program is prepared.
class CountedPool final : public ThreadPool {
 public:
  explicit CountedPool(int threads) : threads_(threads) {}
  int size() const override { return threads_; }
  void parallel_for(int64_t n, int64_t grain, Body body) override {
    serial_pool().parallel_for(n, grain, body);
  }

 private:
  int threads_;
};

}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
