// SPDX-License-Identifier: Apache-2.0
// Replaces operator new and delete. Included by one source file of a program, which defines what is
// done instead.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace hone::test {

/// Defined by the program: memory for operator new, and what takes it back.
void* counted(std::size_t size, std::size_t alignment);
void freed(void* p) noexcept;

/// What operator new usually gives, or null; to be given to std::free.
inline void* allocated(std::size_t size, std::size_t alignment) {
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, rounded)
                                               : std::malloc(size ? size : 1);
}

}  // namespace hone::test

void* operator new(std::size_t size) { return hone::test::counted(size, 1); }
void* operator new[](std::size_t size) { return hone::test::counted(size, 1); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return hone::test::counted(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return hone::test::counted(size, 1);
}
void* operator new(std::size_t size, std::align_val_t a) {
  return hone::test::counted(size, static_cast<std::size_t>(a));
}
void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return hone::test::counted(size, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { hone::test::freed(p); }
void operator delete[](void* p) noexcept { hone::test::freed(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { hone::test::freed(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { hone::test::freed(p); }
void operator delete(void* p, std::size_t) noexcept { hone::test::freed(p); }
void operator delete[](void* p, std::size_t) noexcept { hone::test::freed(p); }
void operator delete(void* p, std::align_val_t) noexcept { hone::test::freed(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { hone::test::freed(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  hone::test::freed(p);
}
