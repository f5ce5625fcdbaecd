// SPDX-License-Identifier: Apache-2.0
// The pool that Hone makes itself.
//
// A call splits [0, n) into chunks and deals each worker a run of neighbouring ones, which keeps a
// worker on the same part of the data from one operation to the next. A worker that is through with
// its own run takes chunks from others. The caller works too, as worker 0, and returns when every
// chunk is done; it does not wait for workers that slept through the whole loop.
//
// Why a late worker does no harm: it reads the job only after it has claimed a chunk, and a claim
// succeeds only while that chunk is outstanding, during which the job stays in place. A claim made
// with a value read during an earlier job is as good as any other: the compare-exchange succeeds
// only on a run that is there now.
#include "hone/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "core/base/platform.hpp"

namespace hone {

ThreadPool::~ThreadPool() = default;

namespace {

constexpr int64_t kChunksPerWorker = 4;  // enough to even out cores of unequal speed
constexpr int64_t kSpinNs = 30'000;      // about what it costs to put a thread to sleep and wake it
constexpr int kMaxThreads = 1024;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `word` is not `old`, awake for spin_ns and then asleep, and returns what it became.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, int64_t spin_ns) {
  uint32_t now = word.load(std::memory_order_acquire);
  if (now != old) return now;
  const int64_t deadline = spin_ns > 0 ? platform::now_ns() + spin_ns : 0;
  while (spin_ns > 0 && platform::now_ns() < deadline) {
    for (int i = 0; i < 16; ++i) {
      now = word.load(std::memory_order_acquire);
      if (now != old) return now;
      relax();
    }
  }
  while ((now = word.load(std::memory_order_acquire)) == old)
    word.wait(old, std::memory_order_acquire);
  return now;
}

// [0, n) in `count` chunks of whole grains, the first ones a grain longer where they do not divide.
struct Chunks {
  Chunks(int64_t n, int64_t grain, int64_t most) : n_(n), grain_(grain) {
    const int64_t grains = n / grain + (n % grain != 0);
    count = std::min(grains, most);
    each_ = grains / count;
    longer_ = grains % count;
  }
  int64_t begin(int64_t chunk) const {
    return chunk == count ? n_ : grain_ * (chunk * each_ + std::min(chunk, longer_));
  }

  int64_t count = 0;

 private:
  int64_t n_, grain_, each_ = 0, longer_ = 0;
};

// The chunks a worker was dealt and nobody has claimed yet: the next one and the end, in one word.
struct alignas(64) Run {
  std::atomic<uint64_t> word{0};

  void deal(int64_t next, int64_t end) {
    word.store(static_cast<uint64_t>(next) << 32 | static_cast<uint64_t>(end),
               std::memory_order_release);
  }
  // Returns a chunk, or -1 when none is left.
  int64_t claim() {
    uint64_t w = word.load(std::memory_order_relaxed);
    while ((w >> 32) < (w & 0xffffffffu))
      if (word.compare_exchange_weak(w, w + (uint64_t{1} << 32), std::memory_order_acq_rel,
                                     std::memory_order_relaxed))
        return static_cast<int64_t>(w >> 32);
    return -1;
  }
};

class SerialPool final : public ThreadPool {
 public:
  int size() const override { return 1; }
  void parallel_for(int64_t n, int64_t, Body body) override {
    if (n > 0) body(0, n, 0);
  }
};

class WorkerPool final : public ThreadPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool() override;
  int size() const override { return size_; }
  void parallel_for(int64_t n, int64_t grain, Body body) override;

 private:
  struct Job {
    const Chunks* chunks;
    const Body* body;
  };
  struct Member {  // what a thread is told about itself
    WorkerPool* pool;
    int worker;
  };

  static void worker_main(void* member);
  void work(int worker);
  void wake_workers();
  void finish_chunk();

  int size_ = 1;  // set before the first job
  int64_t spin_ns_ = 0;
  Job job_{};
  std::unique_ptr<Run[]> runs_;
  std::vector<Member> members_;
  std::vector<platform::Thread> threads_;
  alignas(64) std::atomic<uint32_t> call_{0};     // changes with every job, and to stop
  alignas(64) std::atomic<uint32_t> pending_{0};  // chunks not done yet
  alignas(64) std::atomic<bool> taken_{false};    // some thread is inside parallel_for
  std::atomic<bool> stop_{false};
};

WorkerPool::WorkerPool(int threads) {
  // A thread that spins where there are more threads than processors keeps another from working.
  spin_ns_ = threads <= platform::available_processors() ? kSpinNs : 0;
  runs_.reset(new (std::nothrow) Run[static_cast<size_t>(threads)]);
  if (!runs_) return;
  members_.reserve(static_cast<size_t>(threads));
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 1; i < threads; ++i) {
    members_.push_back({this, i});
    Result<platform::Thread> thread = platform::Thread::start(worker_main, &members_.back());
    if (!thread.ok()) break;  // make do with those we have
    threads_.push_back(std::move(thread).value());
  }
  size_ = static_cast<int>(threads_.size()) + 1;
}

WorkerPool::~WorkerPool() {
  stop_.store(true, std::memory_order_relaxed);
  wake_workers();
  threads_.clear();
}

void WorkerPool::worker_main(void* member) {
  const Member self = *static_cast<const Member*>(member);
  WorkerPool& pool = *self.pool;
  uint32_t seen = 0;
  for (;;) {
    seen = wait_for_change(pool.call_, seen, pool.spin_ns_);
    if (pool.stop_.load(std::memory_order_relaxed)) return;
    pool.work(self.worker);
  }
}

void WorkerPool::work(int worker) {
  for (int i = 0; i < size_; ++i) {
    Run& run = runs_[static_cast<size_t>((worker + i) % size_)];
    for (int64_t chunk = run.claim(); chunk >= 0; chunk = run.claim()) {
      const Chunks& chunks = *job_.chunks;
      (*job_.body)(chunks.begin(chunk), chunks.begin(chunk + 1), worker);
      finish_chunk();
    }
  }
}

// Sequentially consistent, here and below: a waiter announces itself before it looks at the word a
// last time, and a notifier changes the word before it looks for waiters; one of the two must see
// the other.
void WorkerPool::wake_workers() {
  call_.fetch_add(1, std::memory_order_seq_cst);
  call_.notify_all();
}

void WorkerPool::finish_chunk() {
  if (pending_.fetch_sub(1, std::memory_order_seq_cst) == 1) pending_.notify_one();
}

void WorkerPool::parallel_for(int64_t n, int64_t grain, Body body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || size_ == 1) return body(0, n, 0);
  const Chunks chunks(n, grain, size_ * kChunksPerWorker);

  if (taken_.exchange(true, std::memory_order_acquire)) {
    for (int64_t c = 0; c < chunks.count; ++c) body(chunks.begin(c), chunks.begin(c + 1), 0);
    return;
  }
  job_ = {&chunks, &body};
  pending_.store(static_cast<uint32_t>(chunks.count), std::memory_order_relaxed);
  for (int i = 0; i < size_; ++i)
    runs_[static_cast<size_t>(i)].deal(i * chunks.count / size_, (i + 1) * chunks.count / size_);
  wake_workers();

  work(0);
  while (const uint32_t left = pending_.load(std::memory_order_acquire))
    wait_for_change(pending_, left, spin_ns_);
  taken_.store(false, std::memory_order_release);
}

}  // namespace

std::unique_ptr<ThreadPool> make_thread_pool(int threads) {
  if (threads <= 0) threads = platform::available_processors();
  if (threads == 1) return std::make_unique<SerialPool>();
  return std::make_unique<WorkerPool>(std::min(threads, kMaxThreads));
}

ThreadPool& serial_pool() {
  // Built in place and never destroyed, so that no destructor is registered to run at exit.
  alignas(SerialPool) static std::byte storage[sizeof(SerialPool)];
  static ThreadPool* const pool = new (storage) SerialPool;
  return *pool;
}

}  // namespace hone
