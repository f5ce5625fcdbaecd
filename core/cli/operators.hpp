// SPDX-License-Identifier: Apache-2.0
// `hone inspect --operators`: which operators a build for one model needs.
#pragma once

#include <string>
#include <vector>

#include "hone/model.hpp"

namespace hone::cli {

/// The text of a file for HONE_OPERATORS: what running the model with inputs of these shapes takes,
/// and with `train` what its training does: with cross entropy or the mean squared error as loss,
/// any optimizer, clipping, accumulation. `title` goes into a comment. Errors: unsupported where
/// shapes depend on data.
Result<std::string> operators_text(const Model& model, const std::vector<Shape>& shapes, bool train,
                                   const std::string& title);

}  // namespace hone::cli
