// SPDX-License-Identifier: Apache-2.0
#include "core/cli/machine.hpp"

#include <algorithm>
#include <cstdio>

#include "core/base/platform.hpp"
#include "core/cli/machine_loops.hpp"
#include "core/cli/terminal.hpp"
#include "hone/tensor_data.hpp"

namespace hone::cli {

namespace {

using Loop = double (*)(int64_t rounds, float* sink);

double seconds_since(int64_t start) {
  return std::max(1e-9, static_cast<double>(platform::now_ns() - start) * 1e-9);
}

// Floating-point operations a second of all threads together.
double flops_of(ThreadPool& pool, Loop loop) {
  constexpr int kTrials = 10;
  constexpr double kTrialSeconds = 6e-3;
  int64_t rounds = 1 << 14;
  double best = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int64_t start = platform::now_ns();
    pool.parallel_for(pool.size(), 1, [&](int64_t begin, int64_t end, int /*worker*/) {
      float sink[3] = {0.75f, 0.25f, 0};
      for (int64_t i = begin; i < end; ++i) loop(rounds, sink);
    });
    const double seconds = seconds_since(start);
    float sink[3] = {0.75f, 0.25f, 0};
    const double work = pool.size() * loop(1, sink) * static_cast<double>(rounds);
    best = std::max(best, work / seconds);
    if (best == 0) return 0;
    // The first trial tells how long a round takes.
    if (trial == 0)
      rounds = std::max<int64_t>(
          1, static_cast<int64_t>(static_cast<double>(rounds) * kTrialSeconds / seconds));
  }
  return best;
}

Result<double> memory_speed(ThreadPool& pool) {
  constexpr int64_t kFloats = int64_t{16} << 20;  // 64 MiB an array: more than a core's cache share
  constexpr int kPasses = 8;
  TensorData arrays[3];
  for (TensorData& t : arrays) {
    HONE_ASSIGN(t, TensorData::zeros({DType::f32, {kFloats}}));
  }
  float* const a = static_cast<float*>(arrays[0].mutable_data());
  const float* const b = static_cast<const float*>(arrays[1].data());
  const float* const c = static_cast<const float*>(arrays[2].data());
  const int64_t grain = (kFloats + pool.size() - 1) / pool.size();
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const int64_t start = platform::now_ns();
    pool.parallel_for(kFloats, grain, [&](int64_t begin, int64_t end, int /*worker*/) {
      triad(a + begin, b + begin, c + begin, end - begin);
    });
    best =
        std::max(best, 3.0 * sizeof(float) * static_cast<double>(kFloats) / seconds_since(start));
  }
  return best;
}

std::string giga(double v) { return number_text(v * 1e-9, 4); }

}  // namespace

Result<MachineSpeed> measure_machine(ThreadPool& pool) {
  MachineSpeed out;
  out.threads = pool.size();
  out.f32_flops = flops_of(pool, mul_adds);
  out.bf16_flops = flops_of(pool, bf16_mul_adds);
  HONE_ASSIGN(out.memory_bytes, memory_speed(pool));
  return out;
}

std::string vector_instructions() { return vector_target(); }

Status bench_machine(int threads, bool json) {
  std::vector<MachineSpeed> speeds;
  HONE_ASSIGN(speeds.emplace_back(), measure_machine(serial_pool()));
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(threads);
  if (pool->size() > 1) {
    HONE_ASSIGN(speeds.emplace_back(), measure_machine(*pool));
  }
  if (json) {
    std::string list;
    for (const MachineSpeed& s : speeds) list += (list.empty() ? "" : ", ") + machine_json(s);
    std::printf("{\"vectors\": %s, \"speeds\": [%s]}\n", json_text(vector_instructions()).c_str(),
                list.c_str());
    return {};
  }
  Table table({"threads", "f32 Gflop/s", "bf16 Gflop/s", "memory GB/s"});
  for (const MachineSpeed& s : speeds)
    table.add({number_text(s.threads), giga(s.f32_flops),
               s.bf16_flops > 0 ? giga(s.bf16_flops) : "none", giga(s.memory_bytes)});
  std::printf("This machine at most, with %s:\n%s", vector_instructions().c_str(),
              table.text().c_str());
  return {};
}

}  // namespace hone::cli
