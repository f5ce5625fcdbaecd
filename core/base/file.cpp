// SPDX-License-Identifier: Apache-2.0
// The part of file writing that is the same on every system.
#include "core/base/file.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace hone {

namespace {
constexpr size_t kBufferBytes = size_t{64} << 10;
}

FileSink::~FileSink() = default;

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  HONE_ASSIGN(std::unique_ptr<FileSink> sink, platform::create_file(path));
  return over(std::move(sink));
}

Result<AtomicFile> AtomicFile::over(std::unique_ptr<FileSink> sink) {
  std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[kBufferBytes]);
  if (!buffer) return out_of_memory("cannot allocate {} bytes to write a file", kBufferBytes);
  return AtomicFile(std::move(sink), std::move(buffer));
}

Status AtomicFile::flush() {
  if (failed_.ok() && buffered_ > 0) failed_ = sink_->write({buffer_.get(), buffered_});
  buffered_ = 0;
  return failed_;
}

Status AtomicFile::append(std::span<const std::byte> bytes) {
  HONE_TRY(failed_);
  offset_ += bytes.size();
  if (buffered_ + bytes.size() > kBufferBytes) HONE_TRY(flush());
  if (bytes.size() >= kBufferBytes) return failed_ = sink_->write(bytes);
  if (!bytes.empty()) std::memcpy(buffer_.get() + buffered_, bytes.data(), bytes.size());
  buffered_ += bytes.size();
  return {};
}

Status AtomicFile::align(size_t alignment) {
  constexpr std::byte kZeros[64] = {};
  uint64_t missing = (alignment - offset_ % alignment) % alignment;
  while (missing > 0) {
    const size_t n = std::min<size_t>(missing, sizeof kZeros);
    HONE_TRY(append(std::span(kZeros, n)));
    missing -= n;
  }
  return {};
}

Status AtomicFile::commit() {
  HONE_TRY(flush());
  failed_ = sink_->sync();
  HONE_TRY(failed_);
  failed_ = sink_->publish();
  HONE_TRY(failed_);
  sink_.reset();
  failed_ = internal("a file was written to after its commit");
  return {};
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HONE_TRY(file.append(bytes));
  return file.commit();
}

}  // namespace hone
