// SPDX-License-Identifier: Apache-2.0
// What Hone asks of the system besides files: threads, a clock, memory figures, the terminal.
// Implemented once for each system in platform/<system>/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hone/status.hpp"

namespace hone::platform {

/// A thread of the system, joined on destruction. Signals go to the application's threads, not to
/// this one.
class Thread {
 public:
  /// Runs entry(argument) on a new thread. Errors: out_of_memory (the system has no more threads to
  /// give).
  static Result<Thread> start(void (*entry)(void*), void* argument);
  Thread(Thread&&) noexcept;
  Thread& operator=(Thread&&) = delete;
  ~Thread();

 private:
  struct Native;
  explicit Thread(std::unique_ptr<Native> native);
  std::unique_ptr<Native> native_;
};

/// Processors this process may run on; at least 1.
int available_processors();

/// Nanoseconds since some fixed moment; never goes back.
int64_t now_ns();

/// The most memory this process has had resident, in bytes; 0 when the system does not say.
int64_t peak_resident_bytes();
/// The same for now.
int64_t resident_bytes();

/// Asks for large pages beneath [p, p + bytes): fewer faults and fewer misses of address
/// translation. Only whole large pages inside the range are asked for, so no more memory becomes
/// resident.
void prefer_large_pages(void* p, int64_t bytes);

/// Whether the bytes lie in a mapped file: one that MappedFile::open or map_spill_file has mapped.
bool is_mapped(const void* p, int64_t bytes);

/// Takes the pages beneath [p, p + bytes) of a mapped file out of memory; the next access brings
/// them back from the file. What was written to a spill file stays written. Elsewhere it does
/// nothing.
void release_pages(const void* p, int64_t bytes);

/// Calls visit(block) with one block of the bytes after the other and releases its pages behind it:
/// what is read through once leaves nothing of a mapped file in memory.
template <class Visit>
void read_through(std::span<const std::byte> bytes, const Visit& visit) {
  constexpr size_t kBlock = size_t{1} << 20;
  while (!bytes.empty()) {
    const std::span<const std::byte> block = bytes.first(std::min(kBlock, bytes.size()));
    visit(block);
    release_pages(block.data(), static_cast<int64_t>(block.size()));
    bytes = bytes.subspan(block.size());
  }
}

/// Tells the system that pages of a mapped file will be read soon.
void expect_pages(const void* p, int64_t bytes);

/// A new file of `bytes` zeros in `folder`, mapped for reading and writing. It has no name, and
/// goes when the last owner goes. Its space on the disk is taken at once, so that later writes do
/// not fail.
struct SpillFile {
  void* data = nullptr;
  std::shared_ptr<const void> owner;
};
/// Errors: not_found (no such folder), io_error (no permission, disk full), out_of_memory.
Result<SpillFile> map_spill_file(const std::string& folder, int64_t bytes);

enum class Stream : uint8_t { out, error };

/// Whether the standard stream is a terminal someone may be reading.
bool is_terminal(Stream stream);

/// Columns of the terminal; 80 when the stream is none or does not say.
int terminal_columns(Stream stream);

}  // namespace hone::platform
