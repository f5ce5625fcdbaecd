// SPDX-License-Identifier: Apache-2.0
// Trees of modules: named parameters and buffers, modes, freezing, saving and loading of weights.
//
//   class Mlp : public nn::Module {
//    public:
//     explicit Mlp(Generator& rng) : fc1_(784, 128, rng), fc2_(128, 10, rng) {
//       add_child("fc1", fc1_);
//       add_child("fc2", fc2_);
//     }
//     Tensor operator()(const Tensor& x) { return fc2_(fc1_(x).relu()); }
//
//    private:
//     nn::Linear fc1_, fc2_;
//   };
#pragma once

#include <memory>

#include "hone/eager.hpp"
#include "hone/session.hpp"

namespace hone::nn {

/// A parameter or buffer and its path: "encoder.0.weight".
struct NamedMember {
  std::string name;
  Tensor tensor;
};

/// What loading does about names that only one side has.
enum class Match : uint8_t {
  exact,    ///< They are errors.
  partial,  ///< They are left alone.
};

/// A module stays where it was made: parents hold pointers to their members.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What it is, for tables: "Linear".
  virtual std::string kind() const { return "Module"; }
  /// Its name in its parent; empty at the root.
  const std::string& name() const { return name_; }

  // ---- members, with their paths from here, in order of registration, parents before children

  std::vector<NamedMember> named_parameters() const;
  std::vector<NamedMember> named_buffers() const;
  std::vector<Tensor> parameters() const;
  /// Elements of all parameters.
  int64_t parameter_count() const;
  const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }
  /// `fn` on this module and all below it, with their paths ("" for this one).
  void apply(const std::function<void(Module& module, const std::string& path)>& fn);

  // ---- modes

  /// Training mode (the default): dropout drops, batch norm uses the batch's statistics.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  /// Parameters whose path matches one of the comma-separated globs ("encoder.*,*.bias") want no
  /// gradient any more. Returns how many matched. Running statistics still move in training mode.
  int freeze(std::string_view globs) { return set_requires_grad(globs, false); }
  int unfreeze(std::string_view globs) { return set_requires_grad(globs, true); }
  /// What the module computes is computed again in the backward pass rather than kept: see
  /// hone::checkpoint. Traces carry the mark.
  Module& checkpoint(bool on = true) {
    keep_ = on ? Keep::ends : Keep::all;
    return *this;
  }
  /// Drops all gradients.
  void zero_grad();
  /// Converts floating-point parameters and buffers; handles to them follow.
  Module& to(DType dtype);

  // ---- weights

  /// Parameters, then buffers. Shared, not copied: they do not change when the module does.
  std::vector<NamedTensor> state_dict() const;
  /// Errors: invalid_argument naming everything that is missing, unexpected or of another shape;
  /// nothing changes then. Floating-point values are converted. Batch norm's num_batches_tracked
  /// may be missing: ONNX files lack it. From a model: load_state_dict(weights(model)).
  Status load_state_dict(std::span<const NamedTensor> state, Match match = Match::exact);

 protected:
  /// Registers a member of the derived class. An undefined tensor is no member until it is set.
  /// Names contain no '.'.
  void add_parameter(std::string name, Tensor& parameter);
  void add_buffer(std::string name, Tensor& buffer);
  void add_child(std::string name, Module& child);
  /// Operations carry this module's name while the result lives.
  NameScope enter() const { return NameScope(name_, keep_); }

 private:
  using Members = std::vector<std::pair<std::string, Tensor*>>;
  int set_requires_grad(std::string_view globs, bool on);
  void collect(const std::string& path, const Members Module::*which,
               std::vector<NamedMember>& out) const;

  std::string name_;
  bool training_ = true;
  Keep keep_ = Keep::all;
  Members parameters_, buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
};

/// A table of the modules with their parameters' shapes and counts, and what is frozen.
std::string to_string(const Module& module);

/// A module from one tensor to one.
class Layer : public Module {
 public:
  Tensor operator()(const Tensor& x) {
    NameScope scope = enter();
    return forward(x);
  }

 protected:
  virtual Tensor forward(const Tensor& x) = 0;
};

/// Layers one after the other, named "0", "1", ..., which it owns.
///
///   nn::Sequential net;
///   net.add<nn::Linear>(784, 128, rng);
///   net.add<nn::Relu>();
class Sequential : public Layer {
 public:
  std::string kind() const override { return "Sequential"; }
  template <class L, class... A>
  L& add(A&&... args) {
    return add_named<L>(format("{}", layers_.size()), std::forward<A>(args)...);
  }
  template <class L, class... A>
  L& add_named(std::string name, A&&... args) {
    auto layer = std::make_unique<L>(std::forward<A>(args)...);
    L& made = *layer;
    layers_.push_back(std::move(layer));
    add_child(std::move(name), made);
    return made;
  }
  size_t size() const { return layers_.size(); }
  Layer& operator[](size_t i) { return *layers_[i]; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

/// Modules named "0", "1", ..., which it owns.
template <class M>
class ModuleList : public Module {
 public:
  std::string kind() const override { return "ModuleList"; }
  template <class... A>
  M& add(A&&... args) {
    modules_.push_back(std::make_unique<M>(std::forward<A>(args)...));
    add_child(format("{}", modules_.size() - 1), *modules_.back());
    return *modules_.back();
  }
  size_t size() const { return modules_.size(); }
  M& operator[](size_t i) { return *modules_[i]; }

 private:
  std::vector<std::unique_ptr<M>> modules_;
};

}  // namespace hone::nn
