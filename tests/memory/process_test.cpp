// SPDX-License-Identifier: Apache-2.0
// What the process takes is what the plan says: the system's own count of resident pages.
#include "core/base/platform.hpp"
#include "hone/loss_text.hpp"
#include "hone/nn.hpp"
#include "hone/session.hpp"
#include "hone/trainer.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

#if defined(__linux__)
#include <malloc.h>

#include <cstdio>
#endif

namespace hone::test {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Forgets the peak so far, so that the system counts anew from what is resident now. False where it
// cannot (elsewhere than on Linux, or where /proc is read-only), or where a sanitizer keeps what is
// freed.
bool forget_peak() {
#if defined(__linux__)
  if (kSanitized) return false;
  malloc_trim(0);
  std::FILE* f = std::fopen("/proc/self/clear_refs", "we");
  if (!f) return false;
  const bool written = std::fputs("5", f) >= 0;
  return std::fclose(f) == 0 && written;
#else
  return false;
#endif
}

// Bytes that `work` makes the process grow at most, once code and buffers of the libraries are
// there; nothing where that cannot be told.
template <class Work>
std::optional<int64_t> growth(const Work& work) {
  work();
  if (!forget_peak()) {
    MESSAGE("the peak of resident memory cannot be reset here");
    return std::nullopt;
  }
  const int64_t before = platform::resident_bytes();
  work();
  return platform::peak_resident_bytes() - before;
}

// The plan itself, and what the allocator leaves between blocks.
constexpr int64_t kBeside = 2 << 20;
constexpr int64_t kWidth = 1024;

// Eight layers of 4 MiB of weights each, in a file.
void save_wide(const std::string& path) {
  Generator rng(6);
  nn::Sequential net;
  for (int i = 0; i < 8; ++i) {
    net.add<nn::Linear>(kWidth, kWidth, rng);
    net.add<nn::Relu>();
  }
  REQUIRE_OK(save_model(
      must(nn::trace(net, {"x", Tensor(random_tensor({DType::f32, {2, kWidth}}, 3)), {"n"}},
                     "logits")),
      path));
}

}  // namespace

TEST_CASE("a process that streams weights from their file grows by what the plan says") {
  const TempDir dir;
  save_wide(dir.file("wide.hone"));
  const TensorData in[] = {random_tensor({DType::f32, {4, kWidth}}, 5)};
  const Shape shapes[] = {in[0].shape()};
  int64_t plan = 0;
  for (const int64_t limit : {int64_t{12} << 20, int64_t{24} << 20}) {
    CAPTURE(limit);
    const std::optional<int64_t> grown = growth([&] {
      const Model m = must(load_model(dir.file("wide.hone")));
      Session s = must(Session::create(m, {.memory_limit = limit}));
      for (int i = 0; i < 3; ++i) must(s.run(in));
      plan = must(s.plan(shapes)).peak_bytes;
    });
    CHECK_LE(plan, limit);
    if (!grown) continue;
    CHECK_LE(*grown, plan + kBeside);
    CHECK_GE(*grown, plan / 2);
  }
}

TEST_CASE("a process that packs weights keeps no second copy of them, and the plan counts none") {
  const TempDir dir;
  save_wide(dir.file("wide.hone"));
  const TensorData in[] = {random_tensor({DType::f32, {4, kWidth}}, 5)};
  const Shape shapes[] = {in[0].shape()};
  PlanInfo plan;
  const std::optional<int64_t> grown = growth([&] {
    const Model m = must(load_model(dir.file("wide.hone")));
    Session s = must(Session::create(m));
    for (int i = 0; i < 3; ++i) must(s.run(in));
    plan = must(s.plan(shapes));
  });
  if (!grown) return;
  CHECK_LE(*grown, plan.peak_bytes + kBeside);
  CHECK_GE(*grown, plan.peak_bytes - kBeside);
  // The last one packed is there twice for a moment.
  if (plan.packed_bytes > 0)
    CHECK_LE(plan.peak_bytes, plan.packed_bytes + plan.arena_bytes + (4 << 20) + (64 << 10));
}

TEST_CASE("a process that trains with optimizer state in files grows by what the plan says") {
  const TempDir dir;
  save_wide(dir.file("wide.hone"));
  const std::vector<NamedTensor> batch = {{"x", random_tensor({DType::f32, {4, kWidth}}, 5)},
                                          {"y", random_tensor({DType::f32, {4, kWidth}}, 7)}};
  TrainerOptions o;
  o.loss = must(parse_loss("mse(logits, y)"));
  o.optimizer.kind = OptimizerKind::adamw;
  o.spill_folder = dir.path();
  o.session.memory_limit = 60 << 20;
  PlanInfo plan;
  const std::optional<int64_t> grown = growth([&] {
    const Model m = must(load_model(dir.file("wide.hone")));
    Trainer t = must(Trainer::create(m, o));
    for (int i = 0; i < 3; ++i) must(t.step(batch));
    plan = must(t.plan(batch));
  });
  CHECK_LE(plan.peak_bytes, o.session.memory_limit);
  CHECK_GT(plan.file_bytes, 0);
  if (!grown) return;
  CHECK_LE(*grown, plan.peak_bytes + kBeside);
  CHECK_GE(*grown, plan.peak_bytes / 2);
}

}  // namespace hone::test
