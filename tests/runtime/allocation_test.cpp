// SPDX-License-Identifier: Apache-2.0
// After the first run with given shapes nothing is allocated. Counted at operator new, which all of
// Hone's own memory comes from. oneDNN makes a small object for each primitive it runs, so where it
// may be chosen only allocations of a page or more count: none of the kernels' memory is outside
// the plan.
#include <malloc.h>

#include <atomic>

#include "hone/eager.hpp"
#include "hone/tensor.hpp"
#include "tests/runtime/models.hpp"
#include "tests/support/replace_new.hpp"

namespace {
std::atomic<long> allocations{0}, large_allocations{0};
std::atomic<long> live_bytes{0}, peak_bytes{0};
constexpr std::size_t kLarge = 4096;
}  // namespace

void* hone::test::counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (size >= kLarge) ++large_allocations;
  void* const p = allocated(size, alignment);
  const long live = live_bytes += static_cast<long>(malloc_usable_size(p));
  long peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return p;
}
void hone::test::freed(void* p) noexcept {
  if (p) live_bytes -= static_cast<long>(malloc_usable_size(p));
  std::free(p);
}

namespace hone::test {

TEST_CASE("inference into given outputs allocates nothing after the first run") {
  const Model m = small_mlp();
  for (const Kernels kernels : {Kernels::reference, Kernels::best}) {
    Session s = must(Session::create(m, {.threads = 2, .kernels = kernels}));
    const std::vector<TensorData> in = {random_tensor({DType::f32, {16, 3}}, 1)};
    std::vector<TensorData> out = {must(TensorData::zeros({DType::f32, {16, 2}}))};
    REQUIRE_OK(s.run(in, out));
    const std::atomic<long>& counter =
        kernels == Kernels::reference ? allocations : large_allocations;
    const long before = counter;
    for (int i = 0; i < 10; ++i) REQUIRE(s.run(in, out).ok());
    const long made = counter - before;
    CAPTURE(static_cast<int>(kernels));
    CHECK_EQ(made, 0);
  }
}

TEST_CASE("a training step allocates nothing after the first") {
  const Model m = small_mlp(WithDropout::yes);
  for (const Kernels kernels : {Kernels::reference, Kernels::best}) {
    TrainerOptions o;
    o.loss = cross_entropy_loss;
    o.clip_norm = 1;
    o.session = {.threads = 2, .kernels = kernels};
    Trainer t = must(Trainer::create(m, o));
    const auto batch = two_clouds(16, 1);
    REQUIRE_OK(t.step(batch));
    const std::atomic<long>& counter =
        kernels == Kernels::reference ? allocations : large_allocations;
    const long before = counter;
    for (int i = 0; i < 10; ++i) REQUIRE(t.step(batch).ok());
    const long made = counter - before;
    CAPTURE(static_cast<int>(kernels));
    CHECK_EQ(made, 0);
  }
}

namespace {

// Enough activations that graph, plan and names, some 160 KiB, do not count beside them.
Model deep_model() {
  Model m;
  Builder b(m.graph, Composites::keep);
  Value x = b.input({DType::f32, {m.graph.dim("N"), 3, 96, 96}}, "x");
  int64_t channels = 3;
  for (int i = 0; i < 8; ++i) {
    const TensorData w = random_tensor({DType::f32, {16, channels, 1, 1}}, 5, -0.3, 0.3);
    const Value weight = b.state(StateRole::parameter, w, format("conv{}.weight", i));
    x = ops::relu(b.emit(op::conv, {x, weight}, ConvAttrs{}));
    channels = 16;
  }
  const Value pooled = ops::mean(x, {.axes = {2, 3}, .keepdims = false});
  const TensorData w = random_tensor({DType::f32, {16, 2}}, 7, -0.3, 0.3);
  b.output(ops::matmul(pooled, b.state(StateRole::parameter, w, "head.weight")), "logits");
  REQUIRE_OK(b.status());
  return m;
}

}  // namespace

TEST_CASE("training takes the memory that was predicted, within one in a hundred") {
  const Model m = deep_model();
  const std::vector<NamedTensor> batch = {
      {"x", random_tensor({DType::f32, {8, 3, 96, 96}}, 1)},
      {"label", tensor_from({DType::i64, {8}}, {0, 1, 0, 1, 0, 1, 0, 1})}};
  for (const int64_t limit : {int64_t{0}, 36_MiB, 24_MiB}) {
    CAPTURE(limit);
    TrainerOptions o;
    o.loss = cross_entropy_loss;
    o.session = {.threads = 1, .kernels = Kernels::reference, .memory_limit = limit};
    const long before = live_bytes;
    Trainer t = must(Trainer::create(m, o));
    const PlanInfo plan = must(t.plan(batch));
    REQUIRE_OK(t.step(batch));
    peak_bytes = live_bytes.load();
    for (int i = 0; i < 3; ++i) REQUIRE_OK(t.step(batch));
    const double measured = static_cast<double>(peak_bytes - before);
    CHECK_EQ(measured, doctest::Approx(static_cast<double>(plan.peak_bytes)).epsilon(0.01));
    if (limit > 0) CHECK_LE(plan.peak_bytes, limit);
  }
}

TEST_CASE("making plans takes no second copy of optimizer state, and refused ones none at all") {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N"), 1000}}, "x");
  const TensorData w = random_tensor({DType::f32, {1000, 1000}}, 5, -0.3, 0.3);
  const TensorData v = random_tensor({DType::f32, {1000, 2}}, 5, -0.3, 0.3);
  const Value h = ops::relu(ops::matmul(x, b.state(StateRole::parameter, w, "w")));
  b.output(ops::matmul(h, b.state(StateRole::parameter, v, "v")), "logits");
  REQUIRE_OK(b.status());
  const auto batch = [](int64_t n) {
    return std::vector<NamedTensor>{{"x", random_tensor({DType::f32, {n, 1000}}, 1)},
                                    {"label", must(TensorData::zeros({DType::i64, {n}}))}};
  };
  const std::vector<NamedTensor> eight = batch(8), six = batch(6);
  constexpr long kRest = 400 << 10;  // graphs, plans and names
  for (const int parts : {1, 2}) {
    CAPTURE(parts);
    TrainerOptions o;
    o.loss = cross_entropy_loss;
    o.session.kernels = Kernels::reference;
    o.micro_batches = parts;
    const long before = live_bytes;
    Trainer t = must(Trainer::create(m, o));
    const int64_t needed = must(t.smallest_memory_limit(eight));
    peak_bytes = live_bytes.load();
    REQUIRE_OK(t.step(eight));
    REQUIRE_OK(t.step(six));
    const long most = peak_bytes - before;
    CHECK_LE(most, must(t.plan(eight)).peak_bytes + kRest);
    CHECK_GT(most, needed);

    o.session.memory_limit = needed * 9 / 10;
    const long others = live_bytes;
    Trainer refused = must(Trainer::create(m, o));
    const long begun = live_bytes;
    peak_bytes = live_bytes.load();
    CHECK_ERROR(refused.step(eight), Code::out_of_memory, "the smallest that works is");
    const long kept = live_bytes - begun, took = peak_bytes - begun;
    CHECK_LT(kept, 4 << 10);
    CHECK_LT(took, 2 * kRest);
    CHECK_GT(begun, others);
  }
}

TEST_CASE("restoring takes memory for what was not there, and copies nothing twice") {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N"), 1000}}, "x");
  const TensorData w = random_tensor({DType::f32, {1000, 500}}, 5, -0.3, 0.3);
  b.output(ops::matmul(x, b.state(StateRole::parameter, w, "w")), "logits");
  REQUIRE_OK(b.status());
  const std::vector<NamedTensor> batch = {{"x", random_tensor({DType::f32, {2, 1000}}, 1)},
                                          {"label", must(TensorData::zeros({DType::i64, {2}}))}};
  TrainerOptions o;
  o.loss = cross_entropy_loss;
  o.optimizer.kind = OptimizerKind::adamw;
  Trainer t = must(Trainer::create(m, o));
  REQUIRE_OK(t.step(batch));
  const Trainer::State saved = must(t.save());
  Trainer fresh = must(Trainer::create(m, o));
  constexpr long kMoments = 2 * 1000 * 500 * 4, kRest = 64 << 10;
  for (const auto& [trainer, needed] : {std::pair{&t, 0L}, std::pair{&fresh, kMoments}}) {
    const long before = live_bytes;
    peak_bytes = before;
    REQUIRE_OK(trainer->restore(saved));
    CHECK_LE(live_bytes - before, needed + kRest);
    CHECK_LE(peak_bytes - before, needed + kRest);
    CHECK_GE(peak_bytes - before, needed);
  }
  CHECK_EQ(must(t.step(batch)).loss, must(fresh.step(batch)).loss);
}

TEST_CASE("a checkpointed region keeps only what goes in and what comes out") {
  long kept[2];
  for (const bool marked : {false, true}) {
    const Tensor w = Tensor(random_tensor({DType::f32, {100, 1000}}, 3)).requires_grad_();
    const long before = live_bytes;
    const auto region = [&] {
      Tensor x = w;
      for (int i = 0; i < 20; ++i) x = x.sin();
      return x;
    };
    const Tensor loss = (marked ? checkpoint(region) : region()).sum();
    kept[marked] = live_bytes - before;
    REQUIRE_OK(loss.backward());
  }
  CHECK_GT(kept[0], 19L * 400000);
  CHECK_LT(kept[1], 2L * 400000);
}

TEST_CASE("a thousand steps leave no byte behind") {
  const Model m = small_mlp(WithDropout::yes);
  TrainerOptions o;
  o.loss = cross_entropy_loss;
  o.session.memory_limit = 64_KiB;
  Trainer t = must(Trainer::create(m, o));
  const auto batch = two_clouds(16, 1);
  REQUIRE_OK(t.step(batch));
  const long before = live_bytes;
  for (int i = 0; i < 1000; ++i) REQUIRE(t.step(batch).ok());
  const long after = live_bytes;
  CHECK_EQ(after, before);
}

}  // namespace hone::test
