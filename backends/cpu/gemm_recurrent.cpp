// SPDX-License-Identifier: Apache-2.0
// The loops over time of rnn, gru and lstm: core's, with Hone's matrix product in each step.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/gemm_recurrent.hpp"

#include "backends/cpu/gemm.hpp"

namespace hone::cpu {

namespace {

// The largest product of a step: the state, or its gradient, of `gates` sections times the weight.
int64_t product_scratch(int64_t batch, int64_t hidden, int64_t gates, int threads) {
  return std::max(gemm_scratch_bytes(batch, gates * hidden, hidden, threads),
                  gemm_scratch_bytes(batch, hidden, gates * hidden, threads));
}

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const Graph& g, const Node& n, RecurrentFn fn, int64_t product_at)
      : fn_(fn), attrs_(n.attrs), who_(label(n)), product_at_(product_at) {
    for (ValueId v : n.inputs) in_.push_back({v == kNone ? TensorType{} : g.type(v), nullptr});
    for (ValueId v : n.outputs) out_.push_back({g.type(v), nullptr});
  }

  Status run(const StepArgs& args) override {
    for (size_t i = 0; i < in_.size(); ++i) in_[i].data = args.operands[i];
    for (size_t i = 0; i < out_.size(); ++i) out_[i].data = args.operands[in_.size() + i];
    const auto product = [&](const ProductCall<float>& p) {
      gemm(p.rows, p.cols, p.inner, Matrix{p.a, p.a_stride, false},
           Matrix{p.b, p.b_stride, p.trans_b}, p.c, p.c_stride, p.add ? Into::add : Into::assign,
           args.scratch + product_at_, args.pool);
    };
    Status s = fn_({in_, out_, attrs_, args.scratch, args.pool}, product, kVectorActivations);
    return s.ok() ? s : s.with_context(who_);
  }

 private:
  RecurrentFn fn_;
  Attrs attrs_;
  std::string who_;
  int64_t product_at_;
  std::vector<ConstTensorView> in_;
  std::vector<TensorView> out_;
};

}  // namespace

bool accepts_recurrent(const Graph& g, const Node& n) {
  return g.type(n.inputs[0]).dtype == DType::f32;
}

Status lower_recurrent_with(Lowering& to, NodeId id, RecurrentFn fn) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  Step s = plain_step(to, id, nullptr, "gemm.recurrent");
  std::vector<const TensorType*> in, out;
  for (ValueId v : n.inputs) in.push_back(v == kNone ? nullptr : &g.type(v));
  for (ValueId v : n.outputs) out.push_back(&g.type(v));
  const int64_t own = round_up(n.op->scratch({in, out, n.attrs}));
  // The loops' first output has all gates of a step side by side, the last one state.
  const Shape &gates = g.type(n.outputs[0]).shape, &state = g.type(n.outputs.back()).shape;
  const int64_t hidden = state[state.rank() - 1];
  const int64_t sections = hidden > 0 ? gates[2] / hidden : 1;
  s.kernel = std::make_unique<RecurrentKernel>(g, n, fn, own);
  s.scratch_bytes = own + product_scratch(gates[1], hidden, sections, to.threads());
  if (n.op->inplace == Inplace::pairwise) s.may_share.push_back({0, 0});
  to.add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_HIGHWAY
