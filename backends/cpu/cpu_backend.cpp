// SPDX-License-Identifier: Apache-2.0
// The CPU backend: the list of implementations, best first.
#include "backends/cpu/cpu_backend.hpp"

#include <algorithm>
#include <array>

#include "backends/cpu/gemm_ops.hpp"
#include "backends/cpu/gemm_recurrent.hpp"
#include "backends/cpu/image_ops.hpp"
#include "backends/cpu/onednn.hpp"
#include "backends/cpu/onednn_threadpool.hpp"
#include "backends/cpu/pointwise.hpp"
#include "backends/cpu/selection.hpp"
#include "backends/cpu/vector_attention.hpp"
#include "backends/cpu/vector_softmax.hpp"
#include "backends/cpu/vector_update.hpp"
#include "backends/cpu/xnnpack.hpp"
#include "hone/special_ops.hpp"

namespace hone {

namespace {

using cpu::Choice;
using cpu::Family;
using cpu::Implementation;

#if HONE_HAVE_HIGHWAY
constexpr Implementation recurrent(const OpDef* op, decltype(Implementation::lower_group) lower) {
  return {.family = Family::gemm,
          .op = op,
          .accepts = cpu::accepts_recurrent,
          .lower = nullptr,
          .lower_group = lower,
          .beside = cpu::recurrent_beside};
}
#endif

constexpr Implementation kWritten[] = {
#if HONE_HAVE_ONEDNN
    {Family::onednn, &op::matmul, cpu::onednn_accepts_matmul, cpu::onednn_lower_matmul},
    {Family::onednn, &op::conv, cpu::onednn_accepts_conv, nullptr, cpu::onednn_lower_conv,
     cpu::kTailNorm | cpu::kTailAdd | cpu::kTailBound | cpu::kTailSwish},
    {Family::onednn, &op::conv_input_grad, cpu::onednn_accepts_conv, nullptr,
     cpu::onednn_lower_conv_input_grad},
    {Family::onednn, &op::conv_weight_grad, cpu::onednn_accepts_conv, nullptr,
     cpu::onednn_lower_conv_weight_grad},
#endif
#if HONE_HAVE_XNNPACK
    {Family::xnnpack, &op::matmul, cpu::xnnpack_accepts_matmul, cpu::xnnpack_lower_matmul},
    {Family::xnnpack, &op::conv, cpu::xnnpack_accepts_conv, nullptr, cpu::xnnpack_lower_conv,
     cpu::kTailNorm | cpu::kTailBound},
#endif
#if HONE_HAVE_HIGHWAY
    {Family::gemm, &op::matmul, cpu::accepts_matmul, cpu::lower_matmul},
    {Family::gemm, &op::conv, cpu::accepts_conv, cpu::lower_conv},
    {Family::gemm, &op::conv_input_grad, cpu::accepts_conv, cpu::lower_conv_input_grad},
    {Family::gemm, &op::conv_weight_grad, cpu::accepts_conv, cpu::lower_conv_weight_grad},
    recurrent(&op::rnn_cells, cpu::lower_recurrent<run_rnn_cells>),
    recurrent(&op::rnn_cells_grad, cpu::lower_recurrent<run_rnn_cells_grad>),
    recurrent(&op::gru_cells, cpu::lower_recurrent<run_gru_cells>),
    recurrent(&op::gru_cells_grad, cpu::lower_recurrent<run_gru_cells_grad>),
    recurrent(&op::lstm_cells, cpu::lower_recurrent<run_lstm_cells>),
    recurrent(&op::lstm_cells_grad, cpu::lower_recurrent<run_lstm_cells_grad>),
#endif
#if HONE_HAVE_HIGHWAY && HONE_HAVE_ONEDNN
    // Where convolutions leave their images channels-last in training too.
    {Family::vector, &op::batch_norm_train, cpu::accepts_image_norm, nullptr,
     cpu::lower_batch_norm_train},
    {Family::vector, &op::batch_norm_grad, cpu::accepts_image_norm, nullptr,
     cpu::lower_batch_norm_grad, 0, cpu::kBatchNormGradOperand},
    {Family::vector, &op::max_pool_grad, cpu::accepts_max_pool, nullptr, cpu::lower_max_pool_grad},
#endif
#if HONE_HAVE_HIGHWAY
    {Family::vector, &op::batch_norm, cpu::accepts_image_norm, nullptr, cpu::lower_batch_norm},
    {Family::vector, &op::max_pool, cpu::accepts_max_pool, nullptr, cpu::lower_max_pool},
    {Family::vector, &op::resize, cpu::accepts_resize, nullptr, cpu::lower_resize},
    {Family::vector, &op::resize_grad, cpu::accepts_resize, nullptr, cpu::lower_resize},
    {Family::vector, &op::mean, cpu::accepts_pixel_mean, nullptr, cpu::lower_pixel_mean},
    {Family::vector, &op::sum, cpu::accepts_row_sum, nullptr, cpu::lower_row_sum},
    {Family::vector, &op::layer_norm, cpu::accepts_layer_norm, nullptr, cpu::lower_layer_norm},
    {Family::vector, &op::layer_norm_grad, cpu::accepts_layer_norm, nullptr, cpu::lower_layer_norm},
    {Family::vector, &op::concat, cpu::accepts_channel_copy, nullptr, cpu::lower_channel_copy},
    {Family::vector, &op::slice, cpu::accepts_channel_copy, nullptr, cpu::lower_channel_copy},
    {Family::vector, &op::adam_update, cpu::accepts_update, cpu::lower_update},
    {Family::vector, &op::sgd_update, cpu::accepts_update, cpu::lower_update},
    {Family::vector, &op::scaled_dot_product_attention, cpu::accepts_attention,
     cpu::lower_attention},
    {Family::vector, &op::softmax, cpu::vector_accepts_softmax, cpu::vector_lower_softmax},
    {Family::vector, &op::log_softmax, cpu::vector_accepts_softmax, cpu::vector_lower_softmax},
#endif
    {Family::gemm, nullptr, nullptr, nullptr},  // so that the list is never empty
};

// Without the implementations of operators that this build leaves out, and what only they refer to.
constexpr auto kImplementations = [] {
  auto all = std::to_array(kWritten);
  for (Implementation& i : all)
    if (i.op && !cpu::is_built(i.op)) i = {Family::gemm, nullptr, nullptr, nullptr};
  return all;
}();

class CpuBackend final : public Backend {
 public:
  CpuBackend() = default;
  explicit CpuBackend(Family only) : all_(false), only_(only) {}

  std::string_view name() const override { return "cpu"; }
  bool writes_out(const OpDef& op, [[maybe_unused]] std::span<const TensorType* const> in,
                  [[maybe_unused]] const Attrs& attrs, [[maybe_unused]] Mode mode) const override {
    if (&op != &op::scaled_dot_product_attention) return false;
#if HONE_HAVE_HIGHWAY
    // The gradient is no match for products yet.
    return mode == Mode::train || !cpu::attention_pays(in, attrs);
#else
    return true;
#endif
  }
  // What no implementation accepts runs on its reference kernel, among the others.
  bool claims(const Graph&, NodeId) const override { return true; }
  Status lower(Lowering& to, std::span<const NodeId> nodes) const override {
#if HONE_HAVE_ONEDNN
    const cpu::OnednnConcurrency concurrency(to.parts());
#endif
    const Graph& g = to.graph();
    cpu::Region region(to, nodes);
    std::vector<Choice> choices(g.nodes.size());
    for (NodeId n : nodes) choices[static_cast<size_t>(n)] = choose(g, n);
    for (const cpu::Group& group : region.fuse(choices)) {
      Status s = lower_group(region, group, choices);
      if (s.code() != Code::unsupported || group.nodes.size() == 1) {
        HONE_TRY(s);
        continue;
      }
      for (NodeId n : group.nodes) HONE_TRY(lower_group(region, {{n}, {}, n}, choices));
    }
    region.finish();
    return {};
  }

 private:
  Choice choose(const Graph& g, NodeId id) const {
    const Node& n = g.node(id);
    for (const Implementation& i : kImplementations)
      if (i.op == n.op && (all_ || i.family == only_) && i.accepts(g, n)) return {&i, false};
#if HONE_HAVE_HIGHWAY
    return {nullptr, cpu::accepts_pointwise(g, n)};
#else
    return {};
#endif
  }

  Status lower_group(cpu::Region& region, const cpu::Group& group,
                     std::span<const Choice> choices) const {
    const Graph& g = region.graph();
    const NodeId id = group.root;
    const Choice chosen = choices[static_cast<size_t>(id)];
    if (chosen.by && chosen.by->lower_group) return chosen.by->lower_group(region, group);
#if HONE_HAVE_HIGHWAY
    if (chosen.pointwise) return cpu::lower_pointwise(region, group);
#endif
    for (ValueId v : g.node(id).inputs) region.plain(v, id);
    return chosen.by ? chosen.by->lower(region.to(), id) : region.to().add_reference(id);
  }

  bool all_ = true;
  Family only_{};
};

}  // namespace

const Backend& default_backend() {
  static const CpuBackend backend;
  return backend;
}

const Backend* cpu::backend_of(Family family) {
  static const CpuBackend onednn(Family::onednn), xnnpack(Family::xnnpack), gemm(Family::gemm),
      vector(Family::vector);
#if HONE_HAVE_HIGHWAY
  if (family == Family::vector) return &vector;
#endif
  const bool built =
      std::any_of(std::begin(kImplementations), std::end(kImplementations),
                  [&](const Implementation& i) { return i.op && i.family == family; });
  if (!built) return nullptr;
  return family == Family::onednn ? &onednn : family == Family::xnnpack ? &xnnpack : &gemm;
}

}  // namespace hone
