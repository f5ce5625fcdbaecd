// SPDX-License-Identifier: Apache-2.0
// The thread pool that all kernels share.
#pragma once

namespace hone {
class ThreadPool {};
ThreadPool& serial_pool();
}  // namespace hone
