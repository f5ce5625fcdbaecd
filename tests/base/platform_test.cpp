// SPDX-License-Identifier: Apache-2.0
#include "core/base/platform.hpp"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "tests/support/check.hpp"

namespace hone::platform {
namespace {

using test::must;

TEST_CASE("a thread runs its entry and is joined on destruction") {
  std::atomic<int> value{0};
  {
    const Thread t =
        must(Thread::start([](void* p) { *static_cast<std::atomic<int>*>(p) = 7; }, &value));
  }
  CHECK_EQ(value.load(), 7);
}

TEST_CASE("a thread of ours takes no signals, and the caller's mask is left alone") {
  struct Seen {
    bool blocked = false;
  } seen;
  {
    const Thread t = must(Thread::start(
        [](void* p) {
          sigset_t mask;
          pthread_sigmask(SIG_SETMASK, nullptr, &mask);
          static_cast<Seen*>(p)->blocked =
              sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM);
        },
        &seen));
  }
  CHECK(seen.blocked);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CHECK_FALSE(sigismember(&mask, SIGINT));
}

TEST_CASE("the clock does not go back") {
  int64_t last = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = now_ns();
    CHECK_GE(now, last);
    last = now;
  }
}

TEST_CASE("touching memory raises the peak") {
  const int64_t before = peak_resident_bytes();
  CHECK_GT(before, 0);
  std::vector<char> block(static_cast<size_t>(before) + (32 << 20));
  std::memset(block.data(), 1, block.size());
  CHECK_GE(peak_resident_bytes(), static_cast<int64_t>(block.size()));
  CHECK_EQ(block[block.size() / 2], 1);
}

TEST_CASE("there is at least one processor and a terminal has columns") {
  CHECK_GE(available_processors(), 1);
  CHECK_GT(terminal_columns(Stream::out), 0);
  CHECK_GT(terminal_columns(Stream::error), 0);
}

}  // namespace
}  // namespace hone::platform
