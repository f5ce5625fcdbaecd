// SPDX-License-Identifier: Apache-2.0
// Parts of the CPU backend by name, so that tests can run each against the reference kernels.
#pragma once

#include "backends/cpu/implementation.hpp"

namespace hone::cpu {

/// The CPU backend with the implementations of one family only; null where that family is not
/// built. Lives forever.
const Backend* backend_of(Family family);

}  // namespace hone::cpu
