// SPDX-License-Identifier: Apache-2.0
// The coefficients of a batch normalisation with fixed statistics.
#include "backends/cpu/normalisation.hpp"

#include <algorithm>
#include <cmath>

namespace hone::cpu {

namespace {

class CoefficientsKernel final : public Kernel {
 public:
  explicit CoefficientsKernel(const Normalisation& n) : n_(n) {}
  Status run(const StepArgs& args) override {
    const std::array<const void*, 5> from = {args.operands[0], args.operands[1], args.operands[2],
                                             args.operands[3], args.operands[4]};
    n_.coefficients(from, args.out<float>(5), args.out<float>(6));
    return {};
  }

 private:
  Normalisation n_;
};

}  // namespace

Normalisation Normalisation::of(const Graph& g, NodeId node, NodeId conv) {
  const Node& n = g.node(node);
  Normalisation out;
  std::copy_n(n.inputs.begin() + 1, 4, out.values.begin());
  if (conv != kNone && g.node(conv).inputs.size() > 2) out.values[4] = g.node(conv).inputs[2];
  out.eps = n.attrs.as<BatchNormAttrs>().eps;
  out.channels = g.type(n.inputs[1]).numel();
  return out;
}

std::vector<ValueId> Normalisation::sources() const {
  std::vector<ValueId> out;
  for (ValueId v : values)
    if (v != kNone) out.push_back(v);
  return out;
}

bool Normalisation::fixed(const Lowering& to) const {
  return std::all_of(values.begin(), values.end(),
                     [&](ValueId v) { return v == kNone || to.is_fixed(v); });
}

void Normalisation::coefficients(std::span<const void* const> from, float* factor,
                                 float* shift) const {
  const auto at = [&](size_t k, int64_t c) {
    return static_cast<double>(static_cast<const float*>(from[k])[c]);
  };
  for (int64_t c = 0; c < channels; ++c) {
    const float f = static_cast<float>(at(0, c) / std::sqrt(at(3, c) + eps));
    const double before = from.size() > 4 && from[4] ? at(4, c) : 0;
    if (factor) factor[c] = f;
    if (shift)
      shift[c] = static_cast<float>(at(1, c) + (before - at(2, c)) * static_cast<double>(f));
  }
}

Normalisation::Buffers Normalisation::add_step(Region& r, NodeId node) const {
  const Buffers out{r.to().temporary(bytes()), r.to().temporary(bytes())};
  Step s;
  s.kernel = std::make_unique<CoefficientsKernel>(*this);
  for (ValueId v : values) s.reads.push_back(r.plain(v, node));
  s.writes = {out.factor, out.shift};
  s.node = node;
  s.kind = "cpu.batch_norm_coefficients";
  r.to().add(std::move(s));
  return out;
}

}  // namespace hone::cpu
