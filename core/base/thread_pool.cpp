// SPDX-License-Identifier: Apache-2.0
#include "hone/thread_pool.hpp"
namespace hone {
ThreadPool& serial_pool() {
  static ThreadPool pool;
  return pool;
}
}  // namespace hone
