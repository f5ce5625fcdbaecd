// SPDX-License-Identifier: Apache-2.0
// Mapped files: which there are, their pages, and files that hold what memory is too small for.
#include "platform/posix/mapping.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>

#include "core/base/platform.hpp"
#include "platform/posix/system_error.hpp"

namespace hone::platform {

// The mappings that live, as a list: a process has few, and they are asked for when models are
// opened and plans are made.
class Mappings {
 public:
  void add(Mapping* m) {
    const std::lock_guard lock(mutex_);
    m->next_ = first_;
    first_ = m;
  }
  void remove(const Mapping* m) {
    const std::lock_guard lock(mutex_);
    Mapping** at = &first_;
    while (*at != m) at = &(*at)->next_;
    *at = m->next_;
  }
  bool hold(const std::byte* begin, const std::byte* end) {
    const std::lock_guard lock(mutex_);
    for (const Mapping* m = first_; m; m = m->next_)
      if (m->begin() <= begin && end <= m->end()) return true;
    return false;
  }

 private:
  std::mutex mutex_;
  Mapping* first_ = nullptr;
};

namespace {

Mappings& mappings() {
  static Mappings all;
  return all;
}

// Whole pages around [p, p + bytes): what else lies on them comes back when it is read.
void advise(const void* p, int64_t bytes, int advice) {
  if (bytes <= 0 || !is_mapped(p, bytes)) return;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(p) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes);
  madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

Mapping::Mapping(void* data, size_t size) : data_(data), size_(size) { mappings().add(this); }
Mapping::~Mapping() {
  mappings().remove(this);
  munmap(data_, size_);
}

bool is_mapped(const void* p, int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(p);
  return mappings().hold(begin, begin + bytes);
}

void release_pages(const void* p, int64_t bytes) { advise(p, bytes, MADV_DONTNEED); }
void expect_pages(const void* p, int64_t bytes) { advise(p, bytes, MADV_WILLNEED); }

Result<SpillFile> map_spill_file(const std::string& folder, int64_t bytes) {
  std::string path = folder + "/hone-spill-XXXXXX";
  const Descriptor fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return system_error(errno, "create a spill file in", folder);
  unlink(path.c_str());
  const int64_t size = bytes > 0 ? bytes : 1;
  // A hole that finds no room on the disk when it is written would end the process.
  const int failed = posix_fallocate(fd.get(), 0, static_cast<off_t>(size));
  if (failed != 0) return system_error(failed, "take room for a spill file in", folder);
  void* data =
      mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return system_error(errno, "map a spill file in", folder);
  return SpillFile{data, std::make_shared<const Mapping>(data, static_cast<size_t>(size))};
}

}  // namespace hone::platform
