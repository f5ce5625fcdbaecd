// SPDX-License-Identifier: Apache-2.0
// Tensors as plain data: an element type, a shape, and bytes somewhere. No gradients here: see
// hone/tensor.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "hone/shape.hpp"

namespace hone {

/// Alignment of every buffer Hone allocates or stores, in bytes.
inline constexpr size_t kAlignment = 64;

/// `n` rounded up to a multiple of `alignment`.
constexpr int64_t round_up(int64_t n, int64_t alignment = static_cast<int64_t>(kAlignment)) {
  return (n + alignment - 1) / alignment * alignment;
}

/// Borrowed, read-only, contiguous row-major data.
struct ConstTensorView {
  TensorType type;
  const void* data = nullptr;
  template <class T>
  const T* as() const {
    assert(dtype_of<T> == type.dtype);
    return static_cast<const T*>(data);
  }
  int64_t numel() const { return type.numel(); }
};

/// Borrowed, writable, contiguous row-major data.
struct TensorView {
  TensorType type;
  void* data = nullptr;
  template <class T>
  T* as() const {
    assert(dtype_of<T> == type.dtype);
    return static_cast<T*>(data);
  }
  int64_t numel() const { return type.numel(); }
  operator ConstTensorView() const { return {type, data}; }  // NOLINT
};

/// Data with a type that keeps its bytes alive. Copies share the bytes: the owner may be a heap
/// block or a mapped file, which is why it is a shared pointer. Contiguous, row-major, aligned to
/// kAlignment when allocated here.
class TensorData {
 public:
  TensorData() = default;  ///< No data: `defined()` is false.
  /// Errors: invalid_argument (impossible shape), out_of_memory.
  static Result<TensorData> allocate(TensorType type);  ///< Not initialised.
  static Result<TensorData> zeros(TensorType type);
  /// Copies `bytes`, whose size must be exactly that of the type. Errors: invalid_argument,
  /// out_of_memory.
  static Result<TensorData> copy_of(TensorType type, std::span<const std::byte> bytes);
  /// Borrows `data` for as long as `owner` lives; read-only.
  static TensorData borrow(TensorType type, const void* data, std::shared_ptr<const void> owner);
  /// The same for bytes that may be written.
  static TensorData borrow_writable(TensorType type, void* data, std::shared_ptr<const void> owner);
  /// A one-dimensional tensor of `values`.
  template <class T>
  static Result<TensorData> vector_of(std::span<const T> values) {
    return copy_of({dtype_of<T>, {static_cast<int64_t>(values.size())}}, std::as_bytes(values));
  }
  /// A scalar (rank 0).
  template <class T>
  static Result<TensorData> scalar_of(T value) {
    return copy_of({dtype_of<T>, {}}, std::as_bytes(std::span<const T>(&value, 1)));
  }

  bool defined() const { return data_ != nullptr; }
  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  int64_t numel() const { return type_.numel(); }
  int64_t bytes() const { return type_.bytes(); }
  const void* data() const { return data_; }
  /// Writable bytes; null for borrowed (read-only) data. The caller sees to it that no other copy
  /// minds.
  void* mutable_data() { return writable_ ? const_cast<void*>(data_) : nullptr; }
  template <class T>
  const T* as() const {
    assert(dtype_of<T> == type_.dtype);
    return static_cast<const T*>(data_);
  }
  template <class T>
  T* as_mutable() {
    assert(writable_ && dtype_of<T> == type_.dtype);
    return static_cast<T*>(mutable_data());
  }
  ConstTensorView view() const { return {type_, data_}; }
  TensorView mutable_view() { return {type_, mutable_data()}; }
  std::span<const std::byte> as_bytes() const {
    return {static_cast<const std::byte*>(data_), static_cast<size_t>(bytes())};
  }
  bool shares_bytes_with(const TensorData& o) const { return data_ == o.data_; }
  /// Number of TensorData that keep the bytes alive.
  long use_count() const { return owner_.use_count(); }

  /// A deep, writable copy.
  Result<TensorData> clone() const;
  /// The same bytes seen in another shape of equally many elements.
  Result<TensorData> reshaped(const Shape& shape) const;
  /// Element `i` (flat index) as double or int64, whatever the dtype: for printing, tests and
  /// scalars.
  double at(int64_t i) const;
  int64_t int_at(int64_t i) const;

 private:
  TensorType type_;
  const void* data_ = nullptr;
  bool writable_ = false;
  std::shared_ptr<const void> owner_;
};

/// The elements as int64 whatever the integer dtype (a float truncates).
std::vector<int64_t> to_ints(const TensorData& t);

/// Converts elements to another dtype as ONNX Cast does. Errors: out_of_memory.
Result<TensorData> cast(const TensorData& t, DType to);

/// dtype, shape, min/max/mean/NaN count and the values, elided in the middle when there are more
/// than `max_values`.
std::string describe(const TensorData& t, int64_t max_values = 36);

}  // namespace hone
