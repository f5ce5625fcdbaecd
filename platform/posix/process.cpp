// SPDX-License-Identifier: Apache-2.0
// Clock, memory and terminal.
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "core/base/platform.hpp"

namespace hone::platform {

namespace {

int descriptor(Stream stream) { return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO; }

#if defined(__linux__)
// A line such as "VmHWM:  1234 kB" of /proc/self/status, in bytes. getrusage would also count what
// the parent used before exec.
int64_t status_bytes(const char* format) {
  std::FILE* f = std::fopen("/proc/self/status", "re");
  if (!f) return 0;
  long long kib = 0;
  char line[256];
  while (std::fgets(line, sizeof line, f))
    if (std::sscanf(line, format, &kib) == 1) break;
  std::fclose(f);
  return static_cast<int64_t>(kib) * 1024;
}
#endif

}  // namespace

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

int64_t peak_resident_bytes() {
#if defined(__linux__)
  if (const int64_t bytes = status_bytes("VmHWM: %lld kB")) return bytes;
#endif
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#if defined(__APPLE__)
  return usage.ru_maxrss;
#else
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
#endif
}

int64_t resident_bytes() {
#if defined(__linux__)
  return status_bytes("VmRSS: %lld kB");
#else
  return 0;
#endif
}

void prefer_large_pages([[maybe_unused]] void* p, [[maybe_unused]] int64_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr int64_t kPage = int64_t{2} << 20;  // where pages of 4 KiB are the usual ones
  if (bytes < 2 * kPage) return;
  const auto page = static_cast<uintptr_t>(kPage);
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(p) + page - 1) / page * page;
  const uintptr_t end =
      (reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes)) / page * page;
  // A system that will not is no error.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

bool is_terminal(Stream stream) { return isatty(descriptor(stream)) == 1; }

int terminal_columns(Stream stream) {
  winsize size;
  if (ioctl(descriptor(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace hone::platform
