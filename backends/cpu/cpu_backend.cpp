// SPDX-License-Identifier: Apache-2.0
// The CPU backend: the list of implementations, best first.
#include "backends/cpu/gemm_ops.hpp"
#include "backends/cpu/gemm_recurrent.hpp"
#include "backends/cpu/implementation.hpp"
#include "backends/cpu/onednn.hpp"
#include "backends/cpu/onednn_threadpool.hpp"

namespace hone {

namespace {

using cpu::Implementation;

constexpr Implementation kImplementations[] = {
#if HONE_HAVE_ONEDNN
    // Its convolutions stay out until their layouts can be trusted: see README.md beside this file.
    {"onednn.matmul", &op::matmul, cpu::onednn_accepts_matmul, cpu::onednn_lower_matmul},
#endif
#if HONE_HAVE_HIGHWAY
    {"gemm.matmul", &op::matmul, cpu::accepts_matmul, cpu::lower_matmul},
    {"gemm.conv", &op::conv, cpu::accepts_conv, cpu::lower_conv},
    {"gemm.conv_input_grad", &op::conv_input_grad, cpu::accepts_conv, cpu::lower_conv_input_grad},
    {"gemm.conv_weight_grad", &op::conv_weight_grad, cpu::accepts_conv,
     cpu::lower_conv_weight_grad},
    {"gemm.rnn", &op::rnn_cells, cpu::accepts_recurrent, cpu::lower_recurrent<run_rnn_cells>},
    {"gemm.rnn_grad", &op::rnn_cells_grad, cpu::accepts_recurrent,
     cpu::lower_recurrent<run_rnn_cells_grad>},
    {"gemm.gru", &op::gru_cells, cpu::accepts_recurrent, cpu::lower_recurrent<run_gru_cells>},
    {"gemm.gru_grad", &op::gru_cells_grad, cpu::accepts_recurrent,
     cpu::lower_recurrent<run_gru_cells_grad>},
    {"gemm.lstm", &op::lstm_cells, cpu::accepts_recurrent, cpu::lower_recurrent<run_lstm_cells>},
    {"gemm.lstm_grad", &op::lstm_cells_grad, cpu::accepts_recurrent,
     cpu::lower_recurrent<run_lstm_cells_grad>},
#endif
    {"none", nullptr, nullptr, nullptr},  // so that the list is never empty
};

const Implementation* choose(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  for (const Implementation& i : kImplementations)
    if (i.op == n.op && i.accepts(g, n)) return &i;
  return nullptr;
}

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  bool claims(const Graph& g, NodeId node) const override { return choose(g, node) != nullptr; }
  Status lower(Lowering& to, std::span<const NodeId> region) const override {
#if HONE_HAVE_ONEDNN
    const cpu::OnednnConcurrency concurrency(to.threads());
#endif
    for (NodeId id : region) {
      const Implementation* i = choose(to.graph(), id);
      HONE_ENSURE(i != nullptr);
      HONE_TRY(i->lower(to, id));
    }
    return {};
  }
};

}  // namespace

const Backend& default_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace hone
