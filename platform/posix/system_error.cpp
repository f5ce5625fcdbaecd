// SPDX-License-Identifier: Apache-2.0
// From errno to a sentence.
#include "platform/posix/system_error.hpp"

#include <errno.h>
#include <string.h>
#include <unistd.h>

namespace hone::platform {

namespace {

// strerror_r returns the text (GNU) or a number (POSIX); overloads take either.
[[maybe_unused]] const char* reason(const char* text, const char*) { return text; }
[[maybe_unused]] const char* reason(int failed, const char* buffer) {
  return failed ? "unknown error" : buffer;
}

}  // namespace

Status system_error(int error, std::string_view what, std::string_view path) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::not_found
                    : error == ENOMEM                   ? Code::out_of_memory
                                                        : Code::io_error;
  char buffer[256];
  const char* why = reason(strerror_r(error, buffer, sizeof buffer), buffer);
  return Status(code, format("cannot {} '{}': {}", what, path, why));
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace hone::platform
