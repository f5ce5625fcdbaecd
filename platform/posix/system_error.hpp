// SPDX-License-Identifier: Apache-2.0
// From errno to a sentence.
#pragma once

#include <string_view>

#include "hone/status.hpp"

namespace hone::platform {

/// "cannot <what> '<path>': <reason of error>", as not_found, out_of_memory or io_error.
Status system_error(int error, std::string_view what, std::string_view path);

/// Closes a descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& o) noexcept : fd_(o.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

}  // namespace hone::platform
