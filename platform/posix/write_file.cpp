// SPDX-License-Identifier: Apache-2.0
// Files written: beside the target, under a name of their own, then renamed over it.
//
// The name is made from the target's, so that what a killed process left there is used again rather
// than piling up on a small device. Whether somebody is still writing it is told by a lock, which
// the system drops with the process.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/checksum.hpp"
#include "core/base/file.hpp"
#include "platform/posix/system_error.hpp"

namespace hone::platform {

namespace {

constexpr int kMostWriters = 16;                 // at once, of one path
constexpr size_t kMostAtOnce = size_t{1} << 30;  // some systems refuse more in one write
constexpr mode_t kNewFileMode = 0666;            // less what the umask takes

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Where a symbolic link leads, so that the link stays and its target is replaced.
std::string resolve(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string out = real;
  free(real);
  return out;
}

std::string draft_name(const std::string& target, int attempt) {
  const size_t slash = target.rfind('/');
  const std::string name = slash == std::string::npos ? target : target.substr(slash + 1);
  const uint32_t mark = crc32c(std::as_bytes(std::span(name)));
  // Short whatever the target's length: names have limits.
  return format("{}/.hone-{}-{}.tmp", folder_of(target), mark, attempt);
}

bool same_file(int fd, const std::string& path) {
  struct stat by_fd, by_name;
  return fstat(fd, &by_fd) == 0 && lstat(path.c_str(), &by_name) == 0 &&
         by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino;
}

// Opens `draft` for us alone. Returns an invalid descriptor when somebody else is writing it,
// `error` otherwise says why.
Descriptor open_draft(const std::string& draft, int* error) {
  *error = 0;
  bool created = true;
  int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kNewFileMode);
  if (fd < 0 && errno == EEXIST) {
    created = false;
    fd = open(draft.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return Descriptor(-1);  // gone again, or not ours to touch
  }
  Descriptor file(fd);
  if (fd < 0) {
    *error = errno;
    return file;
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    // Where there are no locks, what we created is ours and what we found is not.
    const bool ours = created && errno != EWOULDBLOCK;
    return ours ? std::move(file) : Descriptor(-1);
  }
  // Its writer may have renamed it between our open and our lock: then this is the finished file.
  if (!same_file(fd, draft)) return Descriptor(-1);
  if (!created && ftruncate(fd, 0) != 0) return Descriptor(-1);
  return file;
}

Status sync_descriptor(int fd, const std::string& path) {
#if defined(F_FULLFSYNC)
  if (fcntl(fd, F_FULLFSYNC) == 0) return {};  // fsync there stops at the drive's cache
#endif
  if (fsync(fd) != 0 && errno != EINVAL) return system_error(errno, "flush", path);
  return {};
}

class PosixFile final : public FileSink {
 public:
  PosixFile(Descriptor fd, std::string draft, std::string target)
      : fd_(std::move(fd)), draft_(std::move(draft)), target_(std::move(target)) {}
  ~PosixFile() override {
    if (!published_) unlink(draft_.c_str());  // before the lock goes with the descriptor
  }

  Status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kMostAtOnce));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(errno, "write", target_);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Status sync() override { return sync_descriptor(fd_.get(), target_); }

  Status publish() override {
    if (rename(draft_.c_str(), target_.c_str()) != 0)
      return system_error(errno, "replace", target_);
    published_ = true;
    // The name lasts once its folder is on the medium. Some file systems cannot open a folder; they
    // are left to themselves.
    const std::string folder = folder_of(target_);
    const Descriptor dir(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return dir.valid() ? sync_descriptor(dir.get(), folder) : Status();
  }

 private:
  Descriptor fd_;
  std::string draft_, target_;
  bool published_ = false;
};

}  // namespace

Result<std::unique_ptr<FileSink>> create_file(const std::string& path) {
  std::string target = resolve(path);
  struct stat existing;
  const bool exists = stat(target.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return system_error(EISDIR, "write", path);
  if (exists && !S_ISREG(existing.st_mode))
    return io_error("cannot write '{}': not a regular file", path);
  if (path.empty() || path.back() == '/')
    return invalid("cannot write '{}': not a file name", path);

  for (int attempt = 0; attempt < kMostWriters; ++attempt) {
    std::string draft = draft_name(target, attempt);
    int error = 0;
    Descriptor fd = open_draft(draft, &error);
    if (error != 0) return system_error(error, "write", path);
    if (!fd.valid()) continue;
    // Best effort: a replaced file keeps its permissions, a new one has the usual ones.
    if (exists) (void)fchmod(fd.get(), existing.st_mode & 07777);
    return std::unique_ptr<FileSink>(
        std::make_unique<PosixFile>(std::move(fd), std::move(draft), std::move(target)));
  }
  return io_error("cannot write '{}': {} others are writing it already", path, kMostWriters);
}

}  // namespace hone::platform
