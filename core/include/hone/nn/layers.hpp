// SPDX-License-Identifier: Apache-2.0
// Layers with PyTorch's meanings, parameter names and initial values.
#pragma once

#include "hone/functional.hpp"
#include "hone/nn/module.hpp"

namespace hone::nn {

/// Whether a layer has an additive parameter.
enum class Bias : uint8_t { no, yes };
/// Whether a normalisation has a scale and a shift.
enum class Affine : uint8_t { no, yes };

/// One extent for all spatial axes, or one for each: 3 or {3, 5}.
class Extents {
 public:
  Extents(int64_t all) : values_{all} {}                           // NOLINT: 3 reads as it should
  Extents(int all) : values_{all} {}                               // NOLINT
  Extents(std::initializer_list<int64_t> each) : values_(each) {}  // NOLINT
  /// `rank` values.
  std::vector<int64_t> spread(int rank) const {
    return values_.size() == 1 ? std::vector<int64_t>(static_cast<size_t>(rank), values_[0])
                               : values_;
  }

 private:
  std::vector<int64_t> values_;
};

/// y = x weight^T + bias.   x (.., in) -> (.., out); weight (out, in)
class Linear : public Layer {
 public:
  Linear(int64_t in, int64_t out, Generator& rng, Bias bias = Bias::yes);
  std::string kind() const override { return "Linear"; }
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override;
};

struct ConvOptions {
  Extents stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  Bias bias = Bias::yes;
  Extents output_padding = 0;  ///< For transposed convolutions.
};

/// x (N, in, spatial..), weight (out, in / groups, kernel..); the number of spatial axes comes with
/// the derived class.
class ConvNd : public Layer {
 public:
  Tensor weight, bias;

 protected:
  ConvNd(int spatial, int64_t in, int64_t out, Extents kernel, Generator& rng,
         const ConvOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  ConvAttrs attrs_;
};
class Conv1d : public ConvNd {
 public:
  Conv1d(int64_t in, int64_t out, Extents kernel, Generator& rng, const ConvOptions& options = {})
      : ConvNd(1, in, out, std::move(kernel), rng, options) {}
  std::string kind() const override { return "Conv1d"; }
};
class Conv2d : public ConvNd {
 public:
  Conv2d(int64_t in, int64_t out, Extents kernel, Generator& rng, const ConvOptions& options = {})
      : ConvNd(2, in, out, std::move(kernel), rng, options) {}
  std::string kind() const override { return "Conv2d"; }
};

/// weight (in, out / groups, kernel, kernel)
class ConvTranspose2d : public Layer {
 public:
  ConvTranspose2d(int64_t in, int64_t out, Extents kernel, Generator& rng,
                  const ConvOptions& options = {});
  std::string kind() const override { return "ConvTranspose2d"; }
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  ConvTransposeAttrs attrs_;
};

/// Over all axes but the second, of (N, C) or (N, C, spatial..). In training it normalises with the
/// batch's statistics and moves running_mean and running_var. While tracing it is recorded as one
/// operator that knows both modes.
class BatchNorm : public Layer {
 public:
  explicit BatchNorm(int64_t channels, BatchNormAttrs attrs = {}, Affine affine = Affine::yes);
  std::string kind() const override { return "BatchNorm"; }
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  BatchNormAttrs attrs_;
};
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;

/// Over the last axes, which have the extents `shape`.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(const Shape& shape, double eps = 1e-5, Affine affine = Affine::yes);
  explicit LayerNorm(int64_t width, double eps = 1e-5) : LayerNorm(Shape{width}, eps) {}
  std::string kind() const override { return "LayerNorm"; }
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  NormAttrs attrs_;
};

class GroupNorm : public Layer {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, Affine affine = Affine::yes);
  std::string kind() const override { return "GroupNorm"; }
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  GroupNormAttrs attrs_;
};

/// indices (..) -> (.., width); weight (count, width)
class Embedding : public Layer {
 public:
  Embedding(int64_t count, int64_t width, Generator& rng);
  std::string kind() const override { return "Embedding"; }
  Tensor weight;

 protected:
  Tensor forward(const Tensor& indices) override;
};

/// In training zeros with probability p and scales the others by 1 / (1 - p); the identity
/// otherwise. Has a random source of its own, which `rng` seeds. While tracing it is recorded as
/// one operator that knows both modes.
class Dropout : public Layer {
 public:
  Dropout(double p, Generator& rng) : p_(p), rng_(rng.fork()) {}
  std::string kind() const override { return "Dropout"; }
  /// To save and restore where it stands.
  Generator& generator() { return rng_; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
  Generator rng_;
};

struct PoolOptions {
  Extents stride = 0;  ///< 0: as the kernel.
  Extents padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< For averages.
};

class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(Extents kernel, const PoolOptions& options = {});
  std::string kind() const override { return "MaxPool2d"; }

 protected:
  Tensor forward(const Tensor& x) override { return max_pool(x, attrs_); }

 private:
  PoolAttrs attrs_;
};

class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(Extents kernel, const PoolOptions& options = {});
  std::string kind() const override { return "AvgPool2d"; }

 protected:
  Tensor forward(const Tensor& x) override { return avg_pool(x, attrs_); }

 private:
  PoolAttrs attrs_;
};

/// See adaptive_avg_pool. In a trace the input's height and width can be free when `extents` is 1.
class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(Extents extents = 1) : extents_(extents.spread(2)) {}
  std::string kind() const override { return "AdaptiveAvgPool2d"; }

 protected:
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool(x, extents_); }

 private:
  std::vector<int64_t> extents_;
};

enum class UpsampleMode : uint8_t {
  nearest,
  linear,  ///< Over all spatial axes: bilinear for images.
  cubic,
};
enum class Corners : uint8_t {
  free,
  aligned,  ///< The corners' centres stay where they are; not for nearest.
};

/// torch.nn.Upsample: x (N, C, spatial..) with each spatial extent times `scale`, rounded down.
class Upsample : public Layer {
 public:
  explicit Upsample(double scale, UpsampleMode mode = UpsampleMode::nearest,
                    Corners corners = Corners::free);
  std::string kind() const override { return "Upsample"; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double scale_;
  ResizeAttrs attrs_;
};

/// Axes first to last become one.
class Flatten : public Layer {
 public:
  explicit Flatten(int first = 1, int last = -1) : first_(first), last_(last) {}
  std::string kind() const override { return "Flatten"; }

 protected:
  Tensor forward(const Tensor& x) override { return x.flatten(first_, last_); }

 private:
  int first_, last_;
};

/// A function as a layer: nn::Function("Softmax", [](const Tensor& x) { return x.softmax(-1); }).
class Function : public Layer {
 public:
  Function(std::string kind, std::function<Tensor(const Tensor&)> fn)
      : kind_(std::move(kind)), fn_(std::move(fn)) {}
  std::string kind() const override { return kind_; }

 protected:
  Tensor forward(const Tensor& x) override { return fn_(x); }

 private:
  std::string kind_;
  std::function<Tensor(const Tensor&)> fn_;
};

class Identity : public Layer {
 public:
  std::string kind() const override { return "Identity"; }

 protected:
  Tensor forward(const Tensor& x) override { return x; }
};

class Relu6 : public Layer {
 public:
  std::string kind() const override { return "Relu6"; }

 protected:
  Tensor forward(const Tensor& x) override { return x.clip(0, 6); }
};

class LeakyRelu : public Layer {
 public:
  explicit LeakyRelu(double slope = 0.01) : slope_(slope) {}
  std::string kind() const override { return "LeakyRelu"; }

 protected:
  Tensor forward(const Tensor& x) override { return x.leaky_relu(slope_); }

 private:
  double slope_;
};

class Elu : public Layer {
 public:
  explicit Elu(double alpha = 1) : alpha_(alpha) {}
  std::string kind() const override { return "Elu"; }

 protected:
  Tensor forward(const Tensor& x) override { return x.elu(alpha_); }

 private:
  double alpha_;
};

class Softmax : public Layer {
 public:
  explicit Softmax(int64_t axis = -1) : axis_(axis) {}
  std::string kind() const override { return "Softmax"; }

 protected:
  Tensor forward(const Tensor& x) override { return x.softmax(axis_); }

 private:
  int64_t axis_;
};

#define HONE_ACTIVATION(Name, method)                               \
  class Name : public Layer {                                       \
   public:                                                          \
    std::string kind() const override { return #Name; }             \
                                                                    \
   protected:                                                       \
    Tensor forward(const Tensor& x) override { return x.method(); } \
  };
HONE_ACTIVATION(Relu, relu)
HONE_ACTIVATION(Gelu, gelu)
HONE_ACTIVATION(Silu, silu)
HONE_ACTIVATION(Tanh, tanh)
HONE_ACTIVATION(Sigmoid, sigmoid)
HONE_ACTIVATION(HardSwish, hard_swish)
HONE_ACTIVATION(HardSigmoid, hard_sigmoid)
HONE_ACTIVATION(Softplus, softplus)
#undef HONE_ACTIVATION

}  // namespace hone::nn
