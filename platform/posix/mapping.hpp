// SPDX-License-Identifier: Apache-2.0
// A mapped file, known to platform::is_mapped while it lives.
#pragma once

#include <cstddef>

namespace hone::platform {

/// Owns what mmap returned.
class Mapping {
 public:
  Mapping(void* data, size_t size);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* begin() const { return static_cast<const std::byte*>(data_); }
  const std::byte* end() const { return begin() + size_; }

 private:
  friend class Mappings;
  void* data_;
  size_t size_;
  Mapping* next_ = nullptr;  // of those that live
};

}  // namespace hone::platform
