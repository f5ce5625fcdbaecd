// SPDX-License-Identifier: Apache-2.0
// Watches operator new. In a file of its own, so that the compiler does not see that it is malloc.
#include "tests/model/largest_allocation.hpp"

#include "tests/support/replace_new.hpp"

namespace {
// Of the test's own thread only: each starts a watch of its own.
thread_local std::size_t largest = 0;
}  // namespace

void* hone::test::counted(std::size_t size, std::size_t alignment) {
  if (size > largest) largest = size;
  return allocated(size, alignment);
}
void hone::test::freed(void* p) noexcept { std::free(p); }

namespace hone::test {

void start_watching_allocations() { largest = 0; }
std::size_t largest_allocation() { return largest; }

}  // namespace hone::test
