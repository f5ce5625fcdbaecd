// SPDX-License-Identifier: Apache-2.0
// A file that is a vector.
#pragma once

#include <vector>

#include "core/base/file.hpp"

namespace hone {

class MemorySink final : public FileSink {
 public:
  /// `bytes` must outlive the sink.
  explicit MemorySink(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  Status write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Status sync() override { return {}; }
  Status publish() override { return {}; }

 private:
  std::vector<std::byte>& bytes_;
};

}  // namespace hone
