// SPDX-License-Identifier: Apache-2.0
// The loops over time of rnn, gru and lstm: core's, with Hone's matrix product in each step.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/gemm_recurrent.hpp"

#include <algorithm>

#include "backends/cpu/gemm.hpp"

namespace hone::cpu {

namespace {

// The largest product of a step: the state, or its gradient, of `gates` sections times the weight.
int64_t product_scratch(int64_t batch, int64_t hidden, int64_t gates, int threads) {
  return std::max(gemm_scratch_bytes(batch, gates * hidden, hidden, threads),
                  gemm_scratch_bytes(batch, hidden, gates * hidden, threads));
}

// A node's loop over time.
class Loop {
 public:
  Loop(const Graph& g, const Node& n, RecurrentFn fn, int threads)
      : fn_(fn), attrs_(n.attrs), who_(label(n)) {
    std::vector<const TensorType*> in, out;
    for (ValueId v : n.inputs) {
      in.push_back(v == kNone ? nullptr : &g.type(v));
      in_.push_back({v == kNone ? TensorType{} : g.type(v), nullptr});
    }
    for (ValueId v : n.outputs) {
      out.push_back(&g.type(v));
      out_.push_back({g.type(v), nullptr});
    }
    own_bytes_ = round_up(n.op->scratch({in, out, n.attrs}));
    // The first output has all gates of a step side by side, the last one state.
    const Shape &gates = out.front()->shape, &state = out.back()->shape;
    const int64_t hidden = state[state.rank() - 1];
    const int64_t sections = hidden > 0 ? gates[2] / hidden : 1;
    scratch_bytes_ = own_bytes_ + round_up(product_scratch(gates[1], hidden, sections, threads));
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  /// Reads and writes of the step from `reads` and `writes` on.
  Status run(const StepArgs& args, size_t reads, size_t writes, std::byte* scratch,
             ThreadPool& pool) {
    for (size_t i = 0; i < in_.size(); ++i) in_[i].data = args.operands[reads + i];
    for (size_t i = 0; i < out_.size(); ++i) out_[i].data = args.operands[writes + i];
    const auto product = [&](const ProductCall<float>& p) {
      gemm(p.rows, p.cols, p.inner, Matrix{p.a, p.a_stride, false},
           Matrix{p.b, p.b_stride, p.trans_b}, p.c, p.c_stride, p.add ? Into::add : Into::assign,
           scratch + own_bytes_, pool);
    };
    Status s = fn_({in_, out_, attrs_, scratch, pool}, product, kVectorActivations);
    return s.ok() ? s : s.with_context(who_);
  }

 private:
  RecurrentFn fn_;
  Attrs attrs_;
  std::string who_;
  int64_t own_bytes_ = 0, scratch_bytes_ = 0;
  std::vector<ConstTensorView> in_;
  std::vector<TensorView> out_;
};

// One loop on all threads, or two beside each other on one thread each.
class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(std::vector<Loop> loops, size_t inputs, size_t outputs)
      : loops_(std::move(loops)), inputs_(inputs), outputs_(outputs) {}

  Status run(const StepArgs& args) override {
    if (loops_.size() == 1) return loops_[0].run(args, 0, inputs_, args.scratch, args.pool);
    Status said[2];
    args.pool.parallel_for(2, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const size_t k = static_cast<size_t>(i);
        said[k] = loops_[k].run(args, k * inputs_, 2 * inputs_ + k * outputs_,
                                args.scratch + i * loops_[0].scratch_bytes(), serial_pool());
      }
    });
    return said[0].ok() ? said[1] : said[0];
  }

 private:
  std::vector<Loop> loops_;
  size_t inputs_, outputs_;
};

}  // namespace

bool accepts_recurrent(const Graph& g, const Node& n) {
  return g.type(n.inputs[0]).dtype == DType::f32;
}

bool recurrent_beside(const Graph& g, const Node& n, int threads) {
  const Shape& state = g.type(n.outputs.back()).shape;
  const int64_t hidden = state[state.rank() - 1], batch = g.type(n.inputs[0]).shape[1];
  constexpr int64_t kSmall = 1 << 20;  // products of a step that more threads are no help for
  return threads == 2 || threads == 3 || (threads > 3 && batch * hidden * hidden <= kSmall);
}

Status lower_recurrent_with(Region& r, const Group& group, RecurrentFn fn) {
  const Graph& g = r.graph();
  Step s;
  s.node = group.last();
  s.kind = "gemm.recurrent";
  std::vector<Loop> loops;
  const bool pair = group.nodes.size() == 2;
  for (NodeId id : group.nodes) {
    const Node& n = g.node(id);
    const int32_t read = static_cast<int32_t>(s.reads.size());
    const int32_t write = static_cast<int32_t>(s.writes.size());
    std::vector<const TensorType*> in, out;
    for (ValueId v : n.inputs) {
      s.reads.push_back(r.plain(v, id));
      in.push_back(v == kNone ? nullptr : &g.type(v));
    }
    for (ValueId v : n.outputs) {
      s.writes.push_back(r.result_plain(v));
      out.push_back(&g.type(v));
    }
    loops.emplace_back(g, n, fn, pair ? 1 : r.to().threads());
    s.scratch_bytes += loops.back().scratch_bytes();
    s.flops += n.op->flops({in, out, n.attrs});
    if (n.op->inplace == Inplace::pairwise) s.may_share.push_back({write, read});
  }
  // What the other loop reads too is not written over.
  std::erase_if(s.may_share, [&](const MayShare& m) {
    return std::count(s.reads.begin(), s.reads.end(), s.reads[static_cast<size_t>(m.read)]) > 1;
  });
  s.kernel = std::make_unique<RecurrentKernel>(std::move(loops), g.node(group.root).inputs.size(),
                                               g.node(group.root).outputs.size());
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_HIGHWAY
