// SPDX-License-Identifier: Apache-2.0
// A tensor and what it is called.
#pragma once

#include <string>

#include "hone/tensor_data.hpp"

namespace hone {

struct NamedTensor {
  std::string name;
  TensorData data;
};

}  // namespace hone
