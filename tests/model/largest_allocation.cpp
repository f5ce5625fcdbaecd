// SPDX-License-Identifier: Apache-2.0
// Watches operator new. In a file of its own, so that the compiler does not see that it is malloc.
#include "tests/model/largest_allocation.hpp"

#include <cstdlib>
#include <new>

namespace {
// Of the test's own thread only: each starts a watch of its own.
thread_local std::size_t largest = 0;

void* counted(std::size_t size, std::size_t alignment) {
  if (size > largest) largest = size;
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
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace hone::test {

void start_watching_allocations() { largest = 0; }
std::size_t largest_allocation() { return largest; }

}  // namespace hone::test
