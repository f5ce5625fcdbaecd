// SPDX-License-Identifier: Apache-2.0
// Operators on channels-last images and on rows, in f32: normalisation, pooling, sums. The same
// inputs give the same bits for any number of threads.
#pragma once

#include "backends/cpu/region.hpp"

namespace hone::cpu {

/// (N, C, spatial..) as pixels of C channels each.
struct Pixels {
  int64_t batch, channels, plane;
  explicit Pixels(const Shape& x) : batch(x[0]), channels(x[1]), plane(x.product(2, x.rank())) {}
  int64_t count() const { return batch * plane; }
};

bool accepts_image_norm(const Graph& g, const Node& node);
Status lower_batch_norm(Region& region, const Group& group);
Status lower_batch_norm_train(Region& region, const Group& group);
/// The gradient that comes in may be an expression.
inline constexpr int kBatchNormGradOperand = 4;
Status lower_batch_norm_grad(Region& region, const Group& group);

bool accepts_max_pool(const Graph& g, const Node& node);
Status lower_max_pool(Region& region, const Group& group);
Status lower_max_pool_grad(Region& region, const Group& group);

/// resize and resize_grad along spatial axes, nearest or linear.
bool accepts_resize(const Graph& g, const Node& node);
Status lower_resize(Region& region, const Group& group);

/// mean over all spatial axes.
bool accepts_pixel_mean(const Graph& g, const Node& node);
Status lower_pixel_mean(Region& region, const Group& group);

/// sum over leading axes, or over all but the channels of images.
bool accepts_row_sum(const Graph& g, const Node& node);
Status lower_row_sum(Region& region, const Group& group);

/// layer_norm and layer_norm_grad with scale and bias.
bool accepts_layer_norm(const Graph& g, const Node& node);
Status lower_layer_norm(Region& region, const Group& group);

/// concat of images, and a slice of whole pixels' channels: where they stand channels-last.
bool accepts_channel_copy(const Graph& g, const Node& node);
Status lower_channel_copy(Region& region, const Group& group);

}  // namespace hone::cpu
