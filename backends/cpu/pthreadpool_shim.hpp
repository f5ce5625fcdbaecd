// SPDX-License-Identifier: Apache-2.0
// Hands Hone's thread pool to XNNPACK.
#pragma once

#if HONE_HAVE_XNNPACK

#include "hone/thread_pool.hpp"
#include "pthreadpool.h"

namespace hone::cpu {

/// The pool as XNNPACK takes it. It must outlive whatever XNNPACK does with it.
pthreadpool_t as_pthreadpool(ThreadPool& pool);

}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
