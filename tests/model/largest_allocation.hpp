// SPDX-License-Identifier: Apache-2.0
// The largest single allocation at operator new, which all of Hone's own memory comes from.
#pragma once

#include <cstddef>

namespace hone::test {

/// Of the calling thread, from now on.
void start_watching_allocations();
std::size_t largest_allocation();

}  // namespace hone::test
