// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured: the scale for the speed of steps.
#pragma once

#include <string>

#include "hone/status.hpp"
#include "hone/thread_pool.hpp"

namespace hone::cli {

struct MachineSpeed {
  int threads = 1;
  double f32_flops = 0;     ///< A second: multiply-adds that stay in registers count two each.
  double bf16_flops = 0;    ///< The same of bf16 products added in f32; 0: no such instruction.
  double memory_bytes = 0;  ///< A second: a = b + s * c over arrays larger than caches.
};

/// Takes about a third of a second and 192 MiB, which are given back. The best of several short
/// trials: other work on the machine makes trials slower, nothing makes them faster. Errors:
/// out_of_memory.
Result<MachineSpeed> measure_machine(ThreadPool& pool);

/// The vector instructions that were measured, as Highway calls them.
std::string vector_instructions();

/// `hone bench --machine`: one thread, and `threads`.
Status bench_machine(int threads, bool json);

/// {"threads": 2, ...}.
std::string machine_json(const MachineSpeed& speed);

}  // namespace hone::cli
