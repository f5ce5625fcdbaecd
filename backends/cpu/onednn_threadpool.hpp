// SPDX-License-Identifier: Apache-2.0
// Hands Hone's thread pool to oneDNN.
#pragma once

#if HONE_HAVE_ONEDNN

#include <functional>

#include "hone/thread_pool.hpp"
#include "oneapi/dnnl/dnnl_threadpool_iface.hpp"

namespace hone::cpu {

/// The pool as oneDNN takes it, for dnnl_threadpool_interop_stream_create: as `parts` threads,
/// however many there are. Both the pool and this must outlive the stream.
class OnednnThreadPool final : public dnnl::threadpool_interop::threadpool_iface {
 public:
  OnednnThreadPool(ThreadPool& pool, int parts) : pool_(pool), parts_(parts) {}

  int get_num_threads() const override;
  bool get_in_parallel() const override;
  void parallel_for(int n, const std::function<void(int, int)>& fn) override;
  uint64_t get_flags() const override { return 0; }  // parallel_for waits

 private:
  ThreadPool& pool_;
  int parts_;
};

/// Tells oneDNN how many threads primitives made from here on by this thread are for. While the
/// scope lasts it is this number; afterwards what it was. Without this oneDNN plans primitives for
/// one thread per processor, whatever the pool.
class OnednnConcurrency {
 public:
  explicit OnednnConcurrency(int threads);
  ~OnednnConcurrency();
  OnednnConcurrency(const OnednnConcurrency&) = delete;
  OnednnConcurrency& operator=(const OnednnConcurrency&) = delete;

 private:
  int before_;
};

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
