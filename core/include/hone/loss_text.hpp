// SPDX-License-Identifier: Apache-2.0
// Losses written as text: what the command line and configuration files say.
#pragma once

#include "hone/trainer.hpp"

namespace hone {

/// Parses a loss such as `cross_entropy(cls, target/label) + 0.5*smooth_l1(box, target/box,
/// beta=0.1)`: a weighted sum of terms, each a function of one model output and one target of the
/// batch. Names may be quoted when they contain other characters than letters, digits and `_ / . :
/// -`.
///
/// Functions, with their options (defaults): cross_entropy (axis, ignore_index=-100,
/// label_smoothing=0, weight=NAME of a target with one weight for each class), mse, l1, smooth_l1
/// (beta=1), huber (delta=1), bce_with_logits; all take reduction=mean|sum. Means are over all
/// elements. The class axis of cross_entropy is the one that the labels lack (never the first
/// unless `axis` says so).
///
/// Errors: invalid_argument, with the place in the text. The returned function reports names that
/// do not exist and shapes that do not fit.
Result<LossFn> parse_loss(std::string_view text);

/// How much the mean over a batch counts beside those over others (TrainerOptions::count_targets),
/// by the first term of a loss: cross_entropy counts labels that are not ignored, by their class's
/// weight where classes have weights; the others count elements. Errors: as parse_loss; the
/// returned function refuses reduction=sum.
Result<LossFn> parse_target_count(std::string_view text);

/// What a loss refers to, term by term.
struct LossTerm {
  std::string function, output, target;
  std::string class_weights;  ///< Name of the target that `weight=` gives, or empty.
};
Result<std::vector<LossTerm>> loss_terms(std::string_view text);

}  // namespace hone
