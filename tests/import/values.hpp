// SPDX-License-Identifier: Apache-2.0
// Looking into imported models.
#pragma once

#include "hone/model.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

/// The input, constant or state of that name; ends the test case when there is none.
inline const ValueInfo& value(const Model& m, std::string_view name) {
  const ValueId id = m.graph.find(name);
  REQUIRE_NE(id, kNone);
  return m.graph.value(id);
}

}  // namespace hone::test
