// SPDX-License-Identifier: Apache-2.0
// The out-of-line half of hone/status.hpp.
#include "hone/status.hpp"

namespace hone {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid argument";
    case Code::invalid_model:
      return "invalid model";
    case Code::unsupported:
      return "unsupported";
    case Code::not_found:
      return "not found";
    case Code::io_error:
      return "input/output error";
    case Code::out_of_memory:
      return "out of memory";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal error";
  }
  return "unknown";
}

Status Status::with_context(std::string_view where) const {
  if (ok()) return *this;
  return Status(code_, format("{}: {}", where, message_));
}

}  // namespace hone
