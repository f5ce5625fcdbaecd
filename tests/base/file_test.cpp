// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "tests/support/check.hpp"
#include "tests/support/failing_sink.hpp"
#include "tests/support/temp_dir.hpp"

namespace hone {
namespace {

using test::must;
using test::read_text;
using test::TempDir;
using test::write_text;

std::string text_of(const MappedFile& f) {
  return {reinterpret_cast<const char*>(f.bytes().data()), f.bytes().size()};
}

size_t files_in(const TempDir& dir) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) ++n;
  return n;
}

TEST_CASE("a mapped file shows its bytes") {
  const TempDir dir;
  write_text(dir.file("a"), "hello");
  CHECK_EQ(text_of(must(MappedFile::open(dir.file("a")))), "hello");
}

TEST_CASE("the owner keeps the bytes mapped after the file object and the name are gone") {
  const TempDir dir;
  write_text(dir.file("a"), "hello");
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  {
    const MappedFile f = must(MappedFile::open(dir.file("a")));
    owner = f.owner();
    bytes = f.bytes();
  }
  std::filesystem::remove(dir.file("a"));
  CHECK_EQ(static_cast<char>(bytes[4]), 'o');
}

TEST_CASE("replacing a mapped file leaves the map with the old contents") {
  const TempDir dir;
  CHECK_OK(write_file(dir.file("a"), "old"));
  const MappedFile f = must(MappedFile::open(dir.file("a")));
  CHECK_OK(write_file(dir.file("a"), "new and longer"));
  CHECK_EQ(text_of(f), "old");
}

TEST_CASE("an empty file maps to no bytes") {
  const TempDir dir;
  write_text(dir.file("a"), "");
  CHECK_EQ(must(MappedFile::open(dir.file("a"))).bytes().size(), 0u);
  CHECK_EQ(must(read_file(dir.file("a"))), "");
}

TEST_CASE("a file that cannot be read is named with the reason") {
  const TempDir dir;
  const std::string missing = dir.file("missing");
  CHECK_ERROR(MappedFile::open(missing), Code::not_found,
              "cannot open '" + missing + "': No such file");
  CHECK_ERROR(read_file(missing), Code::not_found, "No such file");
  CHECK_ERROR(MappedFile::open(dir.path()), Code::io_error, "Is a directory");
  CHECK_ERROR(read_file(dir.path()), Code::io_error, "Is a directory");
  CHECK_ERROR(MappedFile::open("/dev/null"), Code::io_error, "not a regular file");
  CHECK_ERROR(MappedFile::open(""), Code::not_found, "''");
  write_text(dir.file("secret"), "x");
  std::filesystem::permissions(dir.file("secret"), std::filesystem::perms::none);
  if (geteuid() != 0)  // root may read anything
    CHECK_ERROR(MappedFile::open(dir.file("secret")), Code::io_error, "Permission denied");
}

TEST_CASE("a pipe cannot be mapped, and opening it does not hang") {
  const TempDir dir;
  REQUIRE_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  CHECK_ERROR(MappedFile::open(dir.file("pipe")), Code::io_error, "not a regular file");
}

TEST_CASE("a whole file is read up to the size allowed") {
  const TempDir dir;
  const std::string text(100000, 'z');
  write_text(dir.file("a"), text);
  CHECK_EQ(must(read_file(dir.file("a"), 100000)), text);
  CHECK_ERROR(read_file(dir.file("a"), 99999), Code::io_error, "100000 bytes, at most 99999");
  CHECK_EQ(must(read_file("/dev/null")), "");
  CHECK_ERROR(read_file("/dev/zero", 1000), Code::io_error, "more than the 1000 bytes");
}

TEST_CASE("a file appears under its name when it is committed, not before") {
  const TempDir dir;
  AtomicFile f = must(AtomicFile::create(dir.file("a")));
  CHECK_OK(f.append("12"));
  CHECK_OK(f.append("345"));
  CHECK_EQ(f.offset(), 5u);
  CHECK_FALSE(std::filesystem::exists(dir.file("a")));
  CHECK_OK(f.commit());
  CHECK_EQ(read_text(dir.file("a")), "12345");
  CHECK_EQ(files_in(dir), 1u);
}

TEST_CASE("a file that is not committed leaves the old one and no trace") {
  const TempDir dir;
  write_text(dir.file("a"), "old");
  {
    AtomicFile f = must(AtomicFile::create(dir.file("a")));
    CHECK_OK(f.append(std::string(200000, 'n')));
  }
  CHECK_EQ(read_text(dir.file("a")), "old");
  CHECK_EQ(files_in(dir), 1u);
}

TEST_CASE("pieces of every size arrive in order") {
  const TempDir dir;
  AtomicFile f = must(AtomicFile::create(dir.file("a")));
  std::string want;
  for (size_t n : {0, 1, 65535, 65536, 65537, 3, 200000, 65000, 600}) {
    const std::string piece(n, static_cast<char>('a' + n % 26));
    CHECK_OK(f.append(piece));
    want += piece;
    CHECK_EQ(f.offset(), want.size());
  }
  CHECK_OK(f.commit());
  CHECK(read_text(dir.file("a")) == want);
}

TEST_CASE("alignment fills with zeros up to the next multiple") {
  const TempDir dir;
  AtomicFile f = must(AtomicFile::create(dir.file("a")));
  CHECK_OK(f.align(64));
  CHECK_EQ(f.offset(), 0u);
  CHECK_OK(f.append("abc"));
  CHECK_OK(f.align(4));
  CHECK_EQ(f.offset(), 4u);
  CHECK_OK(f.align(4096));
  CHECK_EQ(f.offset(), 4096u);
  CHECK_OK(f.commit());
  CHECK_EQ(read_text(dir.file("a")), "abc" + std::string(4093, '\0'));
}

TEST_CASE("nothing can be added after the commit") {
  const TempDir dir;
  AtomicFile f = must(AtomicFile::create(dir.file("a")));
  CHECK_OK(f.commit());
  CHECK_ERROR(f.append("x"), Code::internal, "after its commit");
  CHECK_ERROR(f.commit(), Code::internal, "after its commit");
}

TEST_CASE("wherever the disk fails, the old file stays and nothing else does") {
  const TempDir dir;
  const std::string path = dir.file("a");
  write_text(path, "old");
  int failures = 0;
  test::for_each_disk_failure(
      path,
      [](AtomicFile& f) -> Status {
        for (int i = 0; i < 3; ++i) HONE_TRY(f.append(std::string(70000, 'x')));
        return f.commit();
      },
      [&](int n) {
        CHECK_EQ(n, failures++);
        CHECK_EQ(read_text(path), "old");
        CHECK_EQ(files_in(dir), 1u);
      });
  CHECK_EQ(failures, 5);  // three writes, the flush, the rename
  CHECK_EQ(read_text(path).size(), 210000u);
}

TEST_CASE("after a failure every call reports it") {
  const TempDir dir;
  AtomicFile f = must(AtomicFile::over(
      std::make_unique<test::FailingSink>(must(platform::create_file(dir.file("a"))), 0)));
  CHECK_OK(f.append("small"));  // still in the buffer
  CHECK_ERROR(f.append(std::string(70000, 'x')), Code::io_error, "disk is full");
  CHECK_ERROR(f.append("more"), Code::io_error, "disk is full");
  CHECK_ERROR(f.commit(), Code::io_error, "disk is full");
}

TEST_CASE("a write that the system refuses is reported with its reason") {
  const TempDir dir;
  write_text(dir.file("a"), "old");
  rlimit before;
  REQUIRE_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {100000, before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file(dir.file("a"), std::string(300000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK_ERROR(status, Code::io_error, "cannot write '" + dir.file("a") + "': File too large");
  CHECK_EQ(read_text(dir.file("a")), "old");
  CHECK_EQ(files_in(dir), 1u);
}

TEST_CASE("places that cannot be written to are refused at once") {
  const TempDir dir;
  CHECK_ERROR(AtomicFile::create(dir.path()), Code::io_error, "Is a directory");
  CHECK_ERROR(AtomicFile::create(dir.file("no/such/folder")), Code::not_found, "No such file");
  CHECK_ERROR(AtomicFile::create(""), Code::invalid_argument, "not a file name");
  CHECK_ERROR(AtomicFile::create(dir.file("new/")), Code::invalid_argument, "not a file name");
  CHECK_ERROR(AtomicFile::create("/dev/null"), Code::io_error, "not a regular file");
  write_text(dir.file("plain"), "x");
  CHECK_ERROR(AtomicFile::create(dir.file("plain/below")), Code::not_found, "Not a directory");
}

TEST_CASE("a name as long as the system takes can be written") {
  const TempDir dir;
  CHECK_OK(write_file(dir.file(std::string(255, 'n')), "x"));
  CHECK_ERROR(write_file(dir.file(std::string(256, 'n')), "x"), Code::io_error, "too long");
  CHECK_EQ(files_in(dir), 1u);
}

TEST_CASE("a replaced file keeps its permissions, and a link its target") {
  const TempDir dir;
  write_text(dir.file("a"), "old");
  REQUIRE_EQ(chmod(dir.file("a").c_str(), 0640), 0);
  std::filesystem::create_symlink("a", dir.file("link"));
  CHECK_OK(write_file(dir.file("link"), "new"));
  CHECK(std::filesystem::is_symlink(dir.file("link")));
  CHECK_EQ(read_text(dir.file("a")), "new");
  struct stat info;
  REQUIRE_EQ(stat(dir.file("a").c_str(), &info), 0);
  CHECK_EQ(info.st_mode & 07777, 0640u);
}

TEST_CASE("a new file has the usual permissions") {
  const TempDir dir;
  const mode_t mask = umask(022);
  CHECK_OK(write_file(dir.file("a"), "x"));
  umask(mask);
  struct stat info;
  REQUIRE_EQ(stat(dir.file("a").c_str(), &info), 0);
  CHECK_EQ(info.st_mode & 07777, 0644u);
}

TEST_CASE("two writers of one path do not mix; the last commit wins") {
  const TempDir dir;
  AtomicFile one = must(AtomicFile::create(dir.file("a")));
  AtomicFile two = must(AtomicFile::create(dir.file("a")));
  CHECK_OK(one.append("one"));
  CHECK_OK(two.append("two"));
  CHECK_OK(two.commit());
  CHECK_EQ(read_text(dir.file("a")), "two");
  CHECK_OK(one.commit());
  CHECK_EQ(read_text(dir.file("a")), "one");
  CHECK_EQ(files_in(dir), 1u);
}

// A process killed while it writes leaves its draft behind; the next writer takes the draft over.
TEST_CASE("a kill leaves the old file, and the next commit leaves no litter") {
  const TempDir dir;
  CHECK_OK(write_file(dir.file("a"), "old"));
  const pid_t child = fork();
  if (child == 0) {
    Result<AtomicFile> f = AtomicFile::create(dir.file("a"));
    if (f.ok()) (void)f->append(std::string(200000, 'x'));
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE_EQ(waitpid(child, &status, 0), child);
  REQUIRE(WIFSIGNALED(status));
  CHECK_EQ(read_text(dir.file("a")), "old");
  CHECK_EQ(files_in(dir), 2u);
  CHECK_OK(write_file(dir.file("a"), "new"));
  CHECK_EQ(read_text(dir.file("a")), "new");
  CHECK_EQ(files_in(dir), 1u);
}

}  // namespace
}  // namespace hone
