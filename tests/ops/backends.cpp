// SPDX-License-Identifier: Apache-2.0
// The backends that this build has.
#include "tests/ops/backends.hpp"

namespace hone::test {

std::span<const BackendUnderTest> backends_under_test() { return {}; }

}  // namespace hone::test
