// SPDX-License-Identifier: Apache-2.0
// Tensors that compute: define-by-run code with gradients.
//
//   Tensor w = Tensor::randn({3, 2}, rng).requires_grad_();
//   Tensor loss = (matmul(x, w) - y).square().mean();
//   if (Status s = loss.backward(); !s.ok()) return s;   // one check for the whole chain
//   NoGrad no_grad;
//   w -= w.grad() * 0.1;
//
//  1. A Tensor is a handle. Copies of a handle are the same tensor; operations return new tensors
//  and never an alias of
//     another (a reshaped or detached tensor shares bytes only until one side is written).
//  2. Every operation runs at once. It is recorded when an input wants a gradient and no NoGrad
//  scope is open; the record lives
//     as long as the tensors that came from it.
//  3. Nothing throws. An operation that fails returns a tensor that carries the error; what is
//  computed from it carries the
//     same error, and backward() returns it. An error tensor reads as a f32 scalar NaN.
//  4. Tensors may be handed from thread to thread, but tensors that are connected by recorded
//  operations are not for several
//     threads at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hone/generator.hpp"
#include "hone/op_attrs.hpp"

namespace hone {

class Tensor;

namespace detail {
struct TensorImpl;
}

/// A place in the caller's source, for messages about writes in place.
struct Place {
  const char* file = "";
  int line = 0;
  static Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Whether a reduced axis stays with extent one.
enum class KeepDims : uint8_t { no, yes };

/// What backward() leaves behind.
enum class Retain : uint8_t {
  nothing,   ///< The record is freed; a second backward() through it is an error.
  graph,     ///< The record stays for another backward().
  gradient,  ///< The record stays, and gradients are recorded too, so that they can be
             ///< differentiated.
};

/// Sees a gradient; must not change it.
using GradientHook = std::function<void(const Tensor& gradient)>;

class Tensor {
 public:
  Tensor() = default;  ///< Undefined: `defined()` is false.
  explicit Tensor(TensorData data);
  /// A tensor that carries `status`, which must not be ok.
  static Tensor error(Status status);

  // ---- making

  static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  static Tensor ones(const Shape& shape, DType dtype = DType::f32);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  static Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }
  /// start, start + step, ... before `end`.
  static Tensor arange(double start, double end, double step = 1, DType dtype = DType::i64);
  static Tensor arange(int64_t end) { return arange(0, static_cast<double>(end)); }
  /// `count` values from `start` to `end`, both included.
  static Tensor linspace(double start, double end, int64_t count, DType dtype = DType::f32);
  static Tensor eye(int64_t n, DType dtype = DType::f32);
  /// Uniform in [low, high).
  static Tensor rand(const Shape& shape, Generator& rng, double low = 0, double high = 1,
                     DType dtype = DType::f32);
  static Tensor randn(const Shape& shape, Generator& rng, DType dtype = DType::f32);
  /// Integers (i64) uniform in [low, high).
  static Tensor randint(const Shape& shape, Generator& rng, int64_t low, int64_t high);
  /// 0 .. n-1 in random order (i64).
  static Tensor randperm(int64_t n, Generator& rng);
  /// Copies `values`; their number must be that of `shape`.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    return copy_of({dtype_of<T>, shape}, std::as_bytes(values));
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  /// Tensor::of<float>({1, 2, 3}): one axis. With a shape: Tensor::of<float>({1, 2, 3, 4}, {2, 2}).
  template <class T>
  static Tensor of(std::initializer_list<T> values) {
    return of(values, {static_cast<int64_t>(values.size())});
  }
  template <class T>
  static Tensor of(std::initializer_list<T> values, const Shape& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }
  Tensor zeros_like() const;
  Tensor ones_like() const;

  // ---- looking

  bool defined() const { return impl_ != nullptr; }
  /// The error this tensor carries; invalid_argument for an undefined tensor.
  Status status() const;
  bool ok() const;
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  /// Number of axes.
  int dim() const { return shape().rank(); }
  /// Extent of an axis in [-dim(), dim()); 0 when there is no such axis.
  int64_t size(int axis) const;
  int64_t numel() const { return type().numel(); }
  /// The values; they do not change with later writes to the tensor. Undefined for an error.
  TensorData data() const;
  /// The value of a tensor of one element; NaN (0 for integers) for an error or another number of
  /// elements.
  template <class T>
  T item() const {
    if constexpr (is_float_type<T> || std::is_same_v<T, bool>)
      return static_cast<T>(value_at(0, 1));
    return static_cast<T>(int_at(0, 1));
  }
  /// The element at an index; NaN for an error or an index outside.
  double at(std::initializer_list<int64_t> index) const;
  /// All elements in row-major order; empty for an error.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> out(static_cast<size_t>(ok() ? numel() : 0));
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t k = static_cast<int64_t>(i);
      if constexpr (is_float_type<T> || std::is_same_v<T, bool>)
        out[i] = static_cast<T>(value_at(k, numel()));
      else
        out[i] = static_cast<T>(int_at(k, numel()));
    }
    return out;
  }
  /// A name for messages and for trace().
  const std::string& name() const;
  Tensor& set_name(std::string name);

  // ---- gradients

  /// Asks for the gradient of this tensor, which must be a leaf of floating point. Returns itself.
  Tensor& requires_grad_(bool on = true);
  bool requires_grad() const;
  /// Not made by a recorded operation.
  bool is_leaf() const;
  /// The gradient accumulated by backward(); undefined before.
  Tensor grad() const;
  void set_grad(Tensor grad);
  /// Drops the gradient.
  void zero_grad() { set_grad({}); }
  /// Asks that backward() keeps the gradient of this intermediate in grad().
  Tensor& retain_grad();
  /// `hook` sees the gradient of this tensor in each backward() that computes it. Returns an id for
  /// remove_hook.
  int64_t register_hook(GradientHook hook);
  void remove_hook(int64_t id);
  /// Adds d(this)/d(leaf) to grad() of every leaf that wants one. This must be one element, or
  /// `seed`, of its type, be given. Errors: what this tensor carries; invalid_argument (nothing was
  /// recorded; the record is freed; a value the gradient needs was written in place: names the
  /// operation that needs it and the one that wrote); unsupported (operators without a gradient).
  Status backward(Retain retain = Retain::nothing, const Tensor& seed = {}) const;
  /// The same values without a record.
  Tensor detach() const;
  /// A recorded copy.
  Tensor clone() const;

  // ---- arithmetic with broadcasting; a number takes this tensor's dtype

  friend Tensor operator+(const Tensor& a, const Tensor& b);
  friend Tensor operator-(const Tensor& a, const Tensor& b);
  friend Tensor operator*(const Tensor& a, const Tensor& b);
  friend Tensor operator/(const Tensor& a, const Tensor& b);
  friend Tensor operator+(const Tensor& a, double b);
  friend Tensor operator-(const Tensor& a, double b);
  friend Tensor operator*(const Tensor& a, double b);
  friend Tensor operator/(const Tensor& a, double b);
  friend Tensor operator+(double a, const Tensor& b);
  friend Tensor operator-(double a, const Tensor& b);
  friend Tensor operator*(double a, const Tensor& b);
  friend Tensor operator/(double a, const Tensor& b);
  Tensor operator-() const { return neg(); }
  Tensor pow(const Tensor& exponent) const;
  Tensor pow(double exponent) const;
  Tensor maximum(const Tensor& o) const;
  Tensor minimum(const Tensor& o) const;
  /// The remainder with the sign of the divisor.
  Tensor mod(const Tensor& o) const;

  // ---- elementwise

  Tensor neg() const;
  Tensor abs() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor reciprocal() const;
  Tensor square() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tanh() const;
  Tensor erf() const;
  Tensor sign() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor is_nan() const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor silu() const;
  Tensor hard_swish() const;
  Tensor softplus() const;
  Tensor gelu(GeluForm form = GeluForm::erf) const;
  Tensor hard_sigmoid(double alpha = 1.0 / 6, double beta = 0.5) const;
  Tensor leaky_relu(double slope = 0.01) const;
  Tensor elu(double alpha = 1) const;
  Tensor clip(double low, double high) const;
  Tensor softmax(int64_t axis) const;
  Tensor log_softmax(int64_t axis) const;
  Tensor to(DType dtype) const;
  Tensor to_f32() const { return to(DType::f32); }

  // ---- comparison: bool tensors

  Tensor eq(const Tensor& o) const;
  Tensor ne(const Tensor& o) const;
  Tensor lt(const Tensor& o) const;
  Tensor le(const Tensor& o) const;
  Tensor gt(const Tensor& o) const;
  Tensor ge(const Tensor& o) const;
  Tensor eq(double v) const;
  Tensor ne(double v) const;
  Tensor lt(double v) const;
  Tensor le(double v) const;
  Tensor gt(double v) const;
  Tensor ge(double v) const;
  Tensor logical_not() const;
  Tensor logical_and(const Tensor& o) const;
  Tensor logical_or(const Tensor& o) const;
  Tensor logical_xor(const Tensor& o) const;

  // ---- reductions: no axes means all of them

  Tensor sum(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no) const;
  Tensor mean(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no) const;
  Tensor max(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no) const;
  Tensor min(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no) const;
  Tensor prod(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no) const;
  /// The variance around the mean, divided by the count less `correction`.
  Tensor var(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no,
             double correction = 1) const;
  /// The square root of the variance.
  Tensor std(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no,
             double correction = 1) const;
  /// The square root of the sum of squares.
  Tensor norm(std::vector<int64_t> axes = {}, KeepDims keep = KeepDims::no) const;
  Tensor argmax(int64_t axis, KeepDims keep = KeepDims::no) const;
  Tensor argmin(int64_t axis, KeepDims keep = KeepDims::no) const;
  Tensor cumsum(int64_t axis) const;

  // ---- shape

  /// One extent may be -1 (inferred); 0 keeps the extent of that axis.
  Tensor reshape(std::vector<int64_t> shape) const;
  Tensor view(std::vector<int64_t> shape) const { return reshape(std::move(shape)); }
  /// Axes first to last become one.
  Tensor flatten(int first = 0, int last = -1) const;
  Tensor squeeze(std::vector<int64_t> axes = {}) const;
  Tensor unsqueeze(int64_t axis) const;
  /// Output axis i is axis order[i].
  Tensor permute(std::vector<int64_t> order) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const { return transpose(-2, -1); }
  /// Broadcasts to a shape; -1 keeps an extent.
  Tensor expand(std::vector<int64_t> shape) const;
  Tensor slice(int64_t axis, int64_t start, int64_t end = INT64_MAX, int64_t step = 1) const;
  /// One index of an axis, which goes.
  Tensor select(int64_t axis, int64_t index) const;
  /// select(0, i).
  Tensor operator[](int64_t i) const { return select(0, i); }
  /// Slices of `axis` at `indices`.
  Tensor index_select(int64_t axis, const Tensor& indices) const;
  /// out[i][j] = this[index[i][j]][j] for axis 0, and so on.
  Tensor gather(int64_t axis, const Tensor& index) const;
  /// A copy to which updates[i][j] is added at [index[i][j]][j] for axis 0, and so on.
  Tensor scatter_add(int64_t axis, const Tensor& index, const Tensor& updates) const;
  /// Pieces of `size` along an axis; the last may be smaller. A failure is one tensor that carries
  /// it.
  std::vector<Tensor> split(int64_t size, int64_t axis = 0) const;
  std::vector<Tensor> split(std::vector<int64_t> sizes, int64_t axis = 0) const;
  /// At most `count` pieces of one size; the last may be smaller.
  std::vector<Tensor> chunk(int64_t count, int64_t axis = 0) const;
  /// select(axis, i) for every i.
  std::vector<Tensor> unbind(int64_t axis = 0) const;
  /// The elements of these axes in reverse order.
  Tensor flip(std::vector<int64_t> axes) const;
  /// Copies side by side: repeats[i] of them along axis i.
  Tensor repeat(std::vector<int64_t> repeats) const;
  /// `value` where `mask` (bool) is true.
  Tensor masked_fill(const Tensor& mask, double value) const;
  Tensor tril(int64_t k = 0) const;
  Tensor triu(int64_t k = 0) const;

  // ---- writing in place. Each returns itself. A leaf that wants a gradient is only written under
  // NoGrad.

  Tensor& add_(const Tensor& o, Place where = Place::here());
  Tensor& sub_(const Tensor& o, Place where = Place::here());
  Tensor& mul_(const Tensor& o, Place where = Place::here());
  Tensor& div_(const Tensor& o, Place where = Place::here());
  Tensor& add_(double v, Place where = Place::here());
  Tensor& sub_(double v, Place where = Place::here());
  Tensor& mul_(double v, Place where = Place::here());
  Tensor& div_(double v, Place where = Place::here());
  Tensor& clip_(double low, double high, Place where = Place::here());
  /// Takes the values of `o`, broadcast and converted.
  Tensor& copy_(const Tensor& o, Place where = Place::here());
  Tensor& fill_(double v, Place where = Place::here());
  Tensor& zero_(Place where = Place::here()) { return fill_(0, where); }
  Tensor& operator+=(const Tensor& o) { return add_(o, {}); }
  Tensor& operator-=(const Tensor& o) { return sub_(o, {}); }
  Tensor& operator*=(const Tensor& o) { return mul_(o, {}); }
  Tensor& operator/=(const Tensor& o) { return div_(o, {}); }
  Tensor& operator+=(double v) { return add_(v, {}); }
  Tensor& operator-=(double v) { return sub_(v, {}); }
  Tensor& operator*=(double v) { return mul_(v, {}); }
  Tensor& operator/=(double v) { return div_(v, {}); }
  /// Replaces the values of a leaf, which may change its type; its record of wanting a gradient
  /// stays, its gradient goes.
  Tensor& set_data(TensorData data, Place where = Place::here());

  /// For the engine.
  explicit Tensor(std::shared_ptr<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<detail::TensorImpl>& impl() const { return impl_; }

 private:
  static Tensor copy_of(TensorType type, std::span<const std::byte> bytes);
  double value_at(int64_t i, int64_t wanted_numel) const;
  int64_t int_at(int64_t i, int64_t wanted_numel) const;

  std::shared_ptr<detail::TensorImpl> impl_;  // shared: copies of a handle are the same tensor
};

/// dtype, shape, min/max/mean/NaN count and elided values; then what it is to the gradient: "wants
/// a gradient", "made by mul #12 'block.0'". An error prints as its message.
std::string to_string(const Tensor& t);

}  // namespace hone
