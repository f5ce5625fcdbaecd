// SPDX-License-Identifier: Apache-2.0
// The CPU backend.
#include "hone/backend.hpp"

namespace hone {

namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  bool claims(const Graph&, NodeId) const override { return false; }
  Status lower(Lowering&, std::span<const NodeId>) const override { return internal("cpu: asked to lower what it did not claim"); }
};

}  // namespace

const Backend& default_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace hone
