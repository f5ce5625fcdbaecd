// SPDX-License-Identifier: Apache-2.0
// Writes the model that the C program trains.
#include <cstdio>

#include "tests/runtime/models.hpp"

TEST_CASE("the model of the C program is written") {
  const char* path = std::getenv("HONE_CAPI_MODEL");
  REQUIRE(path != nullptr);
  REQUIRE_OK(hone::save_model(hone::test::small_mlp(), path));
}
