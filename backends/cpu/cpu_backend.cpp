// SPDX-License-Identifier: Apache-2.0
// The CPU backend: the list of implementations, best first.
#include "backends/cpu/cpu_backend.hpp"

#include <algorithm>

#include "backends/cpu/gemm_ops.hpp"
#include "backends/cpu/gemm_recurrent.hpp"
#include "backends/cpu/onednn.hpp"
#include "backends/cpu/onednn_threadpool.hpp"
#include "backends/cpu/xnnpack.hpp"

namespace hone {

namespace {

using cpu::Family;
using cpu::Implementation;

constexpr Implementation kImplementations[] = {
#if HONE_HAVE_ONEDNN
    {Family::onednn, &op::matmul, cpu::onednn_accepts_matmul, cpu::onednn_lower_matmul},
    {Family::onednn, &op::conv, cpu::onednn_accepts_conv, cpu::onednn_lower_conv},
    {Family::onednn, &op::conv_input_grad, cpu::onednn_accepts_conv,
     cpu::onednn_lower_conv_input_grad},
    {Family::onednn, &op::conv_weight_grad, cpu::onednn_accepts_conv,
     cpu::onednn_lower_conv_weight_grad},
#endif
#if HONE_HAVE_XNNPACK
    // Lowered by XnnpackRegion.
    {Family::xnnpack, &op::matmul, cpu::xnnpack_accepts_matmul, nullptr},
    {Family::xnnpack, &op::conv, cpu::xnnpack_accepts_conv, nullptr},
#endif
#if HONE_HAVE_HIGHWAY
    {Family::gemm, &op::matmul, cpu::accepts_matmul, cpu::lower_matmul},
    {Family::gemm, &op::conv, cpu::accepts_conv, cpu::lower_conv},
    {Family::gemm, &op::conv_input_grad, cpu::accepts_conv, cpu::lower_conv_input_grad},
    {Family::gemm, &op::conv_weight_grad, cpu::accepts_conv, cpu::lower_conv_weight_grad},
    {Family::gemm, &op::rnn_cells, cpu::accepts_recurrent, cpu::lower_recurrent<run_rnn_cells>},
    {Family::gemm, &op::rnn_cells_grad, cpu::accepts_recurrent,
     cpu::lower_recurrent<run_rnn_cells_grad>},
    {Family::gemm, &op::gru_cells, cpu::accepts_recurrent, cpu::lower_recurrent<run_gru_cells>},
    {Family::gemm, &op::gru_cells_grad, cpu::accepts_recurrent,
     cpu::lower_recurrent<run_gru_cells_grad>},
    {Family::gemm, &op::lstm_cells, cpu::accepts_recurrent, cpu::lower_recurrent<run_lstm_cells>},
    {Family::gemm, &op::lstm_cells_grad, cpu::accepts_recurrent,
     cpu::lower_recurrent<run_lstm_cells_grad>},
#endif
    {Family::gemm, nullptr, nullptr, nullptr},  // so that the list is never empty
};

#if HONE_HAVE_XNNPACK
constexpr Implementation kPointwise = {Family::xnnpack, nullptr, cpu::xnnpack_accepts_pointwise,
                                       nullptr};
#endif

class CpuBackend final : public Backend {
 public:
  CpuBackend() = default;
  explicit CpuBackend(Family only) : all_(false), only_(only) {}

  std::string_view name() const override { return "cpu"; }
  bool claims(const Graph& g, NodeId node) const override { return choose(g, node) != nullptr; }
  Status lower(Lowering& to, std::span<const NodeId> region) const override {
#if HONE_HAVE_ONEDNN
    const cpu::OnednnConcurrency concurrency(to.threads());
#endif
    std::vector<const Implementation*> chosen;
    for (NodeId id : region) chosen.push_back(choose(to.graph(), id));
#if HONE_HAVE_XNNPACK
    std::vector<NodeId> on_xnnpack;
    for (size_t k = 0; k < region.size(); ++k)
      if (chosen[k] && chosen[k]->family == Family::xnnpack) on_xnnpack.push_back(region[k]);
    cpu::XnnpackRegion xnnpack(to, std::move(on_xnnpack));
#endif
    for (size_t k = 0; k < region.size(); ++k) {
      HONE_ENSURE(chosen[k] != nullptr);
#if HONE_HAVE_XNNPACK
      if (chosen[k]->family == Family::xnnpack) {
        HONE_TRY(xnnpack.lower(region[k]));
        continue;
      }
#endif
      HONE_TRY(chosen[k]->lower(to, region[k]));
    }
    return {};
  }

 private:
  const Implementation* choose(const Graph& g, NodeId id, [[maybe_unused]] int depth = 0) const {
    const Node& n = g.node(id);
    for (const Implementation& i : kImplementations)
      if (i.op == n.op && (all_ || i.family == only_) && i.accepts(g, n)) return &i;
#if HONE_HAVE_XNNPACK
    if (cpu::xnnpack_accepts_pointwise(g, n) && follows_xnnpack(g, n, depth)) return &kPointwise;
#endif
    return nullptr;
  }

#if HONE_HAVE_XNNPACK
  // Whether an operand comes from an XNNPACK convolution, with at most some element-wise operators
  // between: then it is in that layout.
  bool follows_xnnpack(const Graph& g, const Node& n, int depth) const {
    constexpr int kFarthest = 4;
    return depth < kFarthest && std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
             if (g.value(v).kind != ValueKind::node) return false;
             const Node& from = g.node(g.value(v).producer);
             if (from.op != &op::conv && !cpu::xnnpack_accepts_pointwise(g, from)) return false;
             const Implementation* i = choose(g, g.value(v).producer, depth + 1);
             return i && i->family == Family::xnnpack;
           });
  }
#endif

  bool all_ = true;
  Family only_{};
};

}  // namespace

const Backend& default_backend() {
  static const CpuBackend backend;
  return backend;
}

const Backend* cpu::backend_of(Family family) {
  static const CpuBackend onednn(Family::onednn), xnnpack(Family::xnnpack), gemm(Family::gemm);
  const bool built =
      std::any_of(std::begin(kImplementations), std::end(kImplementations),
                  [&](const Implementation& i) { return i.op && i.family == family; });
  if (!built) return nullptr;
  return family == Family::onednn ? &onednn : family == Family::xnnpack ? &xnnpack : &gemm;
}

}  // namespace hone
