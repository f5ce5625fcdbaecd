// SPDX-License-Identifier: Apache-2.0
// Threads through pthreads: std::thread reports failure by throwing, and Hone does not throw.
#include <pthread.h>
#include <signal.h>

#include <new>

#include "core/base/platform.hpp"

#if defined(__linux__)
#include <sched.h>
#else
#include <unistd.h>
#endif

namespace hone::platform {

struct Thread::Native {
  pthread_t id;
  void (*entry)(void*);
  void* argument;
};

namespace {

// POSIX wants a function that returns a pointer.
template <class Native>
void* run_entry(void* p) {
  const Native* native = static_cast<const Native*>(p);
  native->entry(native->argument);
  return nullptr;
}

}  // namespace

Thread::Thread(std::unique_ptr<Native> native) : native_(std::move(native)) {}
Thread::Thread(Thread&&) noexcept = default;

Thread::~Thread() {
  if (native_) pthread_join(native_->id, nullptr);
}

Result<Thread> Thread::start(void (*entry)(void*), void* argument) {
  std::unique_ptr<Native> native(new (std::nothrow) Native{{}, entry, argument});
  if (!native) return out_of_memory("cannot allocate a thread");
  // A new thread inherits the mask: all blocked, so that the application's handlers run on its own
  // threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&native->id, nullptr, run_entry<Native>, native.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return out_of_memory("cannot start a thread: the system gives error {}", error);
#if defined(__linux__)
  pthread_setname_np(native->id, "hone");
#endif
  return Thread(std::move(native));
}

int available_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
  }
  return 1;
#else
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<int>(count) : 1;
#endif
}

}  // namespace hone::platform
