// SPDX-License-Identifier: Apache-2.0
// Chains: the way to compute again that costs the least, where it can be known.
#pragma once

#include <optional>

#include "core/plan/timeline.hpp"

namespace hone {

/// Of steps that begin with a chain (each makes one buffer of the one before) whose results the
/// others read from the last to the first: the cheapest sequence within `limit` bytes that keeps a
/// result until it has been read for the last time. Nothing for other steps, for more than some
/// hundred results, and when there is none. Sharing in place is not counted on.
std::optional<Sequence> chain_within(const WorkList& work, int64_t limit);

}  // namespace hone
