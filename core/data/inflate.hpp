// SPDX-License-Identifier: Apache-2.0
// Decompression, a piece at a time, through zlib. Built without zlib it says so when asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hone/status.hpp"

namespace hone {

/// The most bytes that `compressed` bytes of deflate can become: no pattern packs more than 1032 to
/// one.
constexpr uint64_t most_inflated(uint64_t compressed) {
  return compressed > UINT64_MAX / 1032 - 1 ? UINT64_MAX : (compressed + 1) * 1032;
}

/// Whether Hone was built with zlib.
bool can_inflate();

class Inflater {
 public:
  enum class Form : uint8_t { raw, gzip };

  /// `compressed` must outlive the object. Errors: unsupported (no zlib), out_of_memory.
  static Result<Inflater> open(std::span<const std::byte> compressed, Form form);
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;
  ~Inflater();

  /// Fills all of `out`. Errors: invalid_model (damaged data, or it ends sooner), out_of_memory.
  Status read(std::span<std::byte> out);
  /// Checks that the data ends here (of gzip, the checksum too). Errors: invalid_model.
  Status finish();

 private:
  struct Stream;
  explicit Inflater(std::unique_ptr<Stream> stream);
  std::unique_ptr<Stream> stream_;
};

}  // namespace hone
