// SPDX-License-Identifier: Apache-2.0
// Files read: mapped, or whole into memory.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <new>

#include "core/base/file.hpp"
#include "platform/posix/mapping.hpp"
#include "platform/posix/system_error.hpp"

namespace hone {

namespace {

using platform::Descriptor;
using platform::Mapping;
using platform::system_error;

struct OpenFile {
  Descriptor fd;
  struct stat info;
};

Result<OpenFile> open_to_read(const std::string& path) {
  // Without O_NONBLOCK the mere opening of a pipe that nobody writes to would hang.
  OpenFile file{Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), {}};
  if (!file.fd.valid()) return system_error(errno, "open", path);
  if (fstat(file.fd.get(), &file.info) != 0) return system_error(errno, "open", path);
  if (S_ISDIR(file.info.st_mode)) return system_error(EISDIR, "read", path);
  return file;
}

// What an empty file shows: mmap takes no length of zero.
constexpr std::byte kNothing{};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  HONE_ASSIGN(const OpenFile file, open_to_read(path));
  if (!S_ISREG(file.info.st_mode)) return io_error("cannot map '{}': not a regular file", path);
  const uint64_t bytes = static_cast<uint64_t>(file.info.st_size);
  if (bytes > std::numeric_limits<size_t>::max() / 2)
    return out_of_memory("cannot map '{}': {} bytes do not fit this system's memory", path, bytes);
  if (bytes == 0) return MappedFile({&kNothing, 0}, nullptr);
  const size_t size = static_cast<size_t>(bytes);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (data == MAP_FAILED) return system_error(errno, "map", path);
  auto owner = std::make_shared<const Mapping>(data, size);
  return MappedFile({static_cast<const std::byte*>(data), size}, std::move(owner));
}

Result<std::string> read_file(const std::string& path, size_t most_bytes) {
  HONE_ASSIGN(const OpenFile file, open_to_read(path));
  fcntl(file.fd.get(), F_SETFL, 0);  // block again: wait for what a pipe's writer has to say
  if (S_ISREG(file.info.st_mode) && static_cast<uint64_t>(file.info.st_size) > most_bytes)
    return io_error("cannot read '{}': it has {} bytes, at most {} were expected", path,
                    static_cast<uint64_t>(file.info.st_size), most_bytes);
  std::string text;
  if (S_ISREG(file.info.st_mode)) text.reserve(static_cast<size_t>(file.info.st_size));
  char block[16384];
  for (;;) {
    const ssize_t got = read(file.fd.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "read", path);
    if (got == 0) return text;
    if (text.size() + static_cast<size_t>(got) > most_bytes)
      return io_error("cannot read '{}': it has more than the {} bytes expected", path, most_bytes);
    text.append(block, static_cast<size_t>(got));
  }
}

}  // namespace hone
