// SPDX-License-Identifier: Apache-2.0
// A memory plan that is kept with a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

/// What Session::search_plan and Trainer::search_plan found: when each step runs, which steps run
/// again, and where every buffer lies. Put into Model::plans it is used by whoever comes to the
/// same problem: the same steps on buffers of the same sizes, so the same model, shapes, threads,
/// loss and optimizer on the same kernels. Anybody else plans as if it were not there. A plan
/// changes no result.
struct StoredPlan {
  std::string name;           ///< For people.
  uint64_t problem = 0;       ///< Tells steps and sizes apart (XXH64 over all of them).
  int64_t room = 0;           ///< Bytes that the arena might take; INT64_MAX: as many as it wants.
  int64_t bytes = 0;          ///< Bytes that it takes.
  std::vector<int32_t> runs;  ///< Numbers of the steps, in the order in which they run.
  std::vector<int64_t> offsets;  ///< Of buffers and scratch in the arena.
};

}  // namespace hone
