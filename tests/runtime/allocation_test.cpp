// SPDX-License-Identifier: Apache-2.0
// After the first run with given shapes nothing is allocated. Counted at operator new, which all of
// Hone's own memory comes from. oneDNN makes a small object for each primitive it runs, so where it
// may be chosen only allocations of a page or more count: none of the kernels' memory is outside
// the plan.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/runtime/models.hpp"

namespace {
std::atomic<long> allocations{0}, large_allocations{0};
constexpr std::size_t kLarge = 4096;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (size >= kLarge) ++large_allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, rounded)
                                               : std::malloc(size ? size : 1);
}
}  // namespace

void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(size, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

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

}  // namespace hone::test
