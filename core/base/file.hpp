// SPDX-License-Identifier: Apache-2.0
// Files: read-only maps, whole files, and files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hone/status.hpp"

namespace hone {

/// A file mapped into memory, read-only. Copies share the map; it goes when the last of them and of
/// `owner()` goes.
///
/// Whoever shortens the file while it is mapped takes the process down with it; replacing it (as
/// AtomicFile does) is safe, the map keeps the old contents.
class MappedFile {
 public:
  /// Errors: not_found; io_error (a directory, a device, no permission); out_of_memory (no room to
  /// map it).
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Keeps the bytes mapped for as long as anybody holds it.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  MappedFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void>
      owner_;  // shared: tensors that point into the map outlive this object
};

/// Reads a whole file of at most `most_bytes`; pipes and devices too. For texts: map what may be
/// large. Errors: not_found; io_error (a directory, no permission, larger than allowed).
Result<std::string> read_file(const std::string& path, size_t most_bytes = size_t{64} << 20);

/// A file in the making: where AtomicFile puts its bytes. The system's own is made by
/// `platform::create_file`; a test puts one in between that fails where a disk might.
class FileSink {
 public:
  virtual ~FileSink();  ///< Removes what was written unless it was published.
  /// Appends all of `bytes`, or fails.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  /// Returns when what was written is on the medium.
  virtual Status sync() = 0;
  /// Puts the file in place of whatever has its name, in one step, and makes that last. Nothing may
  /// be written after.
  virtual Status publish() = 0;
};

namespace platform {
/// A sink next to `path`, on the same file system, under a name of its own until it is published as
/// `path`. What a killed process left under such a name is used again by the next writer of the
/// same path. Errors: not_found (no such folder); io_error.
Result<std::unique_ptr<FileSink>> create_file(const std::string& path);
}  // namespace platform

/// Writes a file of any length from front to back. Under its name there is the old file until
/// `commit` has succeeded, and the whole new one from then on, whatever happens: a full disk, a
/// kill, a power cut.
class AtomicFile {
 public:
  /// Errors: not_found (no such folder); io_error; out_of_memory.
  static Result<AtomicFile> create(const std::string& path);
  /// Writes through `sink`, for tests.
  static Result<AtomicFile> over(std::unique_ptr<FileSink> sink);

  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) noexcept = default;
  ~AtomicFile() = default;  ///< Without a commit, as if it had never been.

  /// Appends. After a failure each further call, commit included, reports that failure.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  /// Appends zeros up to the next multiple of `alignment`.
  Status align(size_t alignment);
  /// Bytes appended so far: where the next one goes.
  uint64_t offset() const { return offset_; }
  /// Flushes to the medium and gives the file its name. The last call.
  Status commit();

 private:
  AtomicFile(std::unique_ptr<FileSink> sink, std::unique_ptr<std::byte[]> buffer)
      : sink_(std::move(sink)), buffer_(std::move(buffer)) {}
  Status flush();

  std::unique_ptr<FileSink> sink_;
  std::unique_ptr<std::byte[]> buffer_;  // gathers small appends
  size_t buffered_ = 0;
  uint64_t offset_ = 0;
  Status failed_;
};

/// Writes `bytes` as the whole of `path`, atomically. Errors: as AtomicFile.
Status write_file(const std::string& path, std::span<const std::byte> bytes);
inline Status write_file(const std::string& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace hone
