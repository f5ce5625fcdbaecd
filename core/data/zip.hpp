// SPDX-License-Identifier: Apache-2.0
// Zip archives (PKWARE's APPNOTE 6.3), as far as .npz uses them: entries stored or deflated, zip64,
// one disk.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "hone/status.hpp"

namespace hone {

enum class ZipMethod : uint16_t { stored = 0, deflated = 8 };

struct ZipEntry {
  std::string name;
  ZipMethod method = ZipMethod::stored;
  uint32_t crc = 0;    ///< CRC-32 of the contents, to be checked by who reads them.
  uint64_t bytes = 0;  ///< Of the contents.
  std::span<const std::byte>
      data;  ///< As they lie in the archive; within it, and `bytes` long when stored.
};

/// Reads the table of contents and locates each entry's data; `archive` must outlive the entries.
/// Errors: invalid_model (no zip, damaged, a name twice, a size nothing backs), unsupported
/// (encrypted, another method).
Result<std::vector<ZipEntry>> read_zip(std::span<const std::byte> archive);

/// Writes stored entries one after the other.
class ZipWriter {
 public:
  /// `file` must outlive the writer; the archive starts at its present offset, which must be 0.
  explicit ZipWriter(AtomicFile* file) : file_(file) {}

  /// Adds an entry of the pieces, in order; its contents begin at a multiple of `alignment` (at
  /// most 4096, a power of two). Errors: invalid_argument (a name that is empty, too long, or used
  /// already), and the file's.
  Status add(const std::string& name, std::span<const std::span<const std::byte>> pieces,
             size_t alignment);
  /// Writes the table of contents. The file is still to be committed.
  Status finish();

 private:
  struct Written {
    std::string name;
    uint32_t crc;
    uint64_t bytes;
    uint64_t at;
  };
  AtomicFile* file_;
  std::vector<Written> written_;
};

}  // namespace hone
