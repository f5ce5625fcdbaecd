// SPDX-License-Identifier: Apache-2.0
// What a user's first program might be: it only has to compile, link and run.
#include <cstdio>

#include "hone/tensor_data.hpp"

#if __has_include("core/base/platform.hpp") || __has_include("flatbuffers_generated.h")
#error "private headers are on the user's path"
#endif

int main() {
  const hone::Shape shape{2, 3};
  std::printf("consumer: %d dimensions\n", static_cast<int>(shape.rank()));
  return 0;
}
