// SPDX-License-Identifier: Apache-2.0
// A file sink on which the n-th thing asked of the disk fails.
#pragma once

#include <memory>
#include <utility>

#include "core/base/file.hpp"

namespace hone::test {

/// Passes calls on to `inner` and counts them; call number `fails_at` (from 0) and all after it
/// fail as on a full disk.
class FailingSink final : public FileSink {
 public:
  FailingSink(std::unique_ptr<FileSink> inner, int fails_at)
      : inner_(std::move(inner)), fails_at_(fails_at) {}

  Status write(std::span<const std::byte> bytes) override {
    HONE_TRY(next());
    return inner_->write(bytes);
  }
  Status sync() override {
    HONE_TRY(next());
    return inner_->sync();
  }
  Status publish() override {
    HONE_TRY(next());
    return inner_->publish();
  }

 private:
  Status next() {
    return calls_++ >= fails_at_ ? io_error("the disk is full (a test says so)") : Status();
  }

  std::unique_ptr<FileSink> inner_;
  int fails_at_;
  int calls_ = 0;
};

/// Runs save(file) for `path` with a disk that fails at the first call, then at the second, ...
/// until it succeeds, and calls check(n) after each of the n failures.
template <class Save, class Check>
void for_each_disk_failure(const std::string& path, Save save, Check check) {
  for (int n = 0;; ++n) {
    Result<std::unique_ptr<FileSink>> sink = platform::create_file(path);
    if (!sink.ok()) return check(-1);
    Result<AtomicFile> file =
        AtomicFile::over(std::make_unique<FailingSink>(std::move(sink).value(), n));
    if (file.ok() && save(*file).ok()) return;
    file = io_error("dropped");  // as after an early return
    check(n);
  }
}

}  // namespace hone::test
