// SPDX-License-Identifier: Apache-2.0
// Training steps and inputs made up where only time and memory matter.
#pragma once

#include "hone/trainer.hpp"

namespace hone::cli {

/// AdamW on a loss that pulls every floating-point output towards zero.
TrainerOptions stand_in_training(const SessionOptions& session);

/// Made-up data for each of the model's inputs.
Result<std::vector<NamedTensor>> made_up_inputs(const Graph& g, std::span<const Shape> shapes);

}  // namespace hone::cli
