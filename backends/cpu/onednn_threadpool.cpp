// SPDX-License-Identifier: Apache-2.0
// oneDNN asks its pool for n tasks and splits its work into as many parts as there are threads. It
// must know when it is inside a task already, so as not to split again: a flag per thread says so.
#include "backends/cpu/onednn_threadpool.hpp"

#if HONE_HAVE_ONEDNN

#include "oneapi/dnnl/dnnl_threadpool.h"

namespace hone::cpu {
namespace {

thread_local bool in_parallel = false;

class InParallel {
 public:
  InParallel() : before_(in_parallel) { in_parallel = true; }
  ~InParallel() { in_parallel = before_; }
  InParallel(const InParallel&) = delete;
  InParallel& operator=(const InParallel&) = delete;

 private:
  bool before_;
};

}  // namespace

int OnednnThreadPool::get_num_threads() const { return parts_; }

bool OnednnThreadPool::get_in_parallel() const { return in_parallel; }

void OnednnThreadPool::parallel_for(int n, const std::function<void(int, int)>& fn) {
  pool_.parallel_for(n, 1, [&](int64_t begin, int64_t end, int /*worker*/) {
    const InParallel scope;
    for (int64_t i = begin; i < end; ++i) fn(static_cast<int>(i), n);
  });
}

OnednnConcurrency::OnednnConcurrency(int threads) : before_(0) {
  (void)dnnl_threadpool_interop_get_max_concurrency(&before_);  // fails only for a null pointer
  (void)dnnl_threadpool_interop_set_max_concurrency(threads);
}

OnednnConcurrency::~OnednnConcurrency() {
  (void)dnnl_threadpool_interop_set_max_concurrency(before_);
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
