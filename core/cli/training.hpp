// SPDX-License-Identifier: Apache-2.0
// What `hone train` and `hone eval` share: data from an .npz, and judging a model on it.
#pragma once

#include <memory>
#include <string>

#include "hone/data.hpp"
#include "hone/loss_text.hpp"
#include "hone/trainer.hpp"

namespace hone::cli {

/// The arrays of an .npz that the model's inputs and the loss's targets name (inputs may carry the
/// prefix "in/"); others are ignored. Errors: invalid_argument naming what is missing and what
/// there is. Floating-point arrays are read as f64 for a model whose parameters are f64.
Result<std::shared_ptr<const Dataset>> open_data(const std::string& path, const Graph& g,
                                                 const std::vector<LossTerm>& loss);

struct Score {
  double loss = 0;       ///< Mean over the samples.
  double accuracy = -1;  ///< Of the first cross-entropy term; -1 when there is none.
  int64_t samples = 0;
  std::string text() const;
};

/// Judges the trainer's current weights in inference mode.
Result<Score> judge(Trainer& trainer, std::shared_ptr<const Dataset> data,
                    const std::vector<LossTerm>& loss, int64_t batch);

}  // namespace hone::cli
