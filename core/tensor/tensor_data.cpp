// SPDX-License-Identifier: Apache-2.0
// Owning and borrowing of tensor bytes.
#include "hone/tensor_data.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/platform.hpp"
#include "core/tensor/convert.hpp"

namespace hone {

Result<TensorData> TensorData::allocate(TensorType type) {
  HONE_ASSIGN(const int64_t bytes, checked_bytes(type.shape, type.dtype));
  // An empty tensor still gets an address, so that `defined` holds and kernels may form pointers.
  const size_t size = std::max<size_t>(static_cast<size_t>(bytes), 1);
  void* p = ::operator new (size, std::align_val_t{kAlignment}, std::nothrow);
  if (!p) return out_of_memory("cannot allocate {} bytes for a tensor of {}", bytes, type);
  platform::prefer_large_pages(p, bytes);
  TensorData t;
  t.type_ = type;
  t.data_ = p;
  t.writable_ = true;
  t.owner_ = std::shared_ptr<const void>(p, [](const void* q) {
    ::operator delete (const_cast<void*>(q), std::align_val_t{kAlignment});
  });
  return t;
}

Result<TensorData> TensorData::zeros(TensorType type) {
  HONE_ASSIGN(TensorData t, allocate(type));
  std::memset(t.mutable_data(), 0, static_cast<size_t>(t.bytes()));
  return t;
}

Result<TensorData> TensorData::copy_of(TensorType type, std::span<const std::byte> bytes) {
  HONE_ASSIGN(const int64_t want, checked_bytes(type.shape, type.dtype));
  if (static_cast<uint64_t>(want) != bytes.size())
    return invalid("a tensor of {} needs {} bytes, got {}", type, want, bytes.size());
  HONE_ASSIGN(TensorData t, allocate(type));
  auto* to = static_cast<std::byte*>(t.mutable_data());
  platform::read_through(bytes, [&](std::span<const std::byte> block) {
    to = std::copy(block.begin(), block.end(), to);
  });
  return t;
}

TensorData TensorData::borrow(TensorType type, const void* data,
                              std::shared_ptr<const void> owner) {
  TensorData t;
  t.type_ = type;
  t.data_ = data;
  t.owner_ = std::move(owner);
  return t;
}

TensorData TensorData::borrow_writable(TensorType type, void* data,
                                       std::shared_ptr<const void> owner) {
  TensorData t = borrow(type, data, std::move(owner));
  t.writable_ = true;
  return t;
}

Result<TensorData> TensorData::clone() const { return copy_of(type_, as_bytes()); }

Result<TensorData> TensorData::reshaped(const Shape& shape) const {
  HONE_ASSIGN(const int64_t want, checked_bytes(shape, type_.dtype));
  if (want != bytes()) return invalid("cannot see {} as {}: element counts differ", type_, shape);
  TensorData t = *this;
  t.type_.shape = shape;
  return t;
}

double TensorData::at(int64_t i) const {
  return dispatch(type_.dtype,
                  [&]<class T>() { return static_cast<double>(static_cast<const T*>(data_)[i]); });
}

int64_t TensorData::int_at(int64_t i) const {
  return dispatch(type_.dtype, [&]<class T>() {
    return convert_element<int64_t>(static_cast<const T*>(data_)[i]);
  });
}

std::vector<int64_t> to_ints(const TensorData& t) {
  std::vector<int64_t> out(static_cast<size_t>(t.numel()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = t.int_at(static_cast<int64_t>(i));
  return out;
}

Result<TensorData> cast(const TensorData& t, DType to) {
  HONE_ASSIGN(TensorData out, TensorData::allocate({to, t.shape()}));
  convert(t.view(), out.mutable_view());
  return out;
}

}  // namespace hone
