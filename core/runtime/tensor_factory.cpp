// SPDX-License-Identifier: Apache-2.0
// Tensors from nothing: constants, ranges, random numbers.
#include <cmath>

#include "core/runtime/eager_engine.hpp"
#include "core/tensor/convert.hpp"
#include "core/tensor/philox.hpp"

namespace hone {

namespace {

// Element i is value(i).
template <class F>
Tensor generate(const TensorType& type, F value) {
  auto data = TensorData::allocate(type);
  if (!data.ok()) return Tensor::error(data.status());
  dispatch(type.dtype, [&]<class T>() {
    T* out = data->as_mutable<T>();
    for (int64_t i = 0; i < type.numel(); ++i) out[i] = convert_element<T>(value(i));
  });
  return detail::make_tensor(std::move(*data));
}

Tensor random(const OpDef& op, const Shape& shape, Generator& rng, double low, double high,
              DType dtype) {
  const int64_t state[] = {static_cast<int64_t>(rng.seed()), static_cast<int64_t>(rng.next())};
  const Tensor seed = detail::make_tensor(TensorData::vector_of<int64_t>(state));
  return apply(op, {seed}, RandomAttrs{{shape.begin(), shape.end()}, dtype, low, high, 0});
}

// A uniform number below `bound`, from 64 random bits; the bias is below 2^-32 for bounds below
// 2^32.
int64_t below(int64_t bound, uint64_t seed, uint64_t counter, uint64_t index) {
  const Philox::Block words = Philox::block(seed, counter, index);
  const uint64_t bits = (uint64_t{words[0]} << 32) | words[1];
  return static_cast<int64_t>(bits % static_cast<uint64_t>(bound));
}

}  // namespace

Tensor Tensor::copy_of(TensorType type, std::span<const std::byte> bytes) {
  return detail::make_tensor(TensorData::copy_of(type, bytes));
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  // In a trace a node says more, and takes less room, than its values.
  if (detail::eager().tracer)
    return apply(op::fill, {}, FillAttrs{{shape.begin(), shape.end()}, dtype, value});
  return generate({dtype, shape}, [&](int64_t) { return value; });
}
Tensor Tensor::zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor Tensor::ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor Tensor::zeros_like() const { return ok() ? full(shape(), 0, dtype()) : *this; }
Tensor Tensor::ones_like() const { return ok() ? full(shape(), 1, dtype()) : *this; }

Tensor Tensor::arange(double start, double end, double step, DType dtype) {
  const double count = std::ceil((end - start) / step);
  if (!(step != 0) || !(count < 1e15))
    return error(invalid("arange: cannot go from {} to {} in steps of {}", start, end, step));
  return generate({dtype, {std::max<int64_t>(static_cast<int64_t>(count), 0)}},
                  [&](int64_t i) { return start + static_cast<double>(i) * step; });
}

Tensor Tensor::linspace(double start, double end, int64_t count, DType dtype) {
  const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
  return generate({dtype, {count}}, [&](int64_t i) {
    return i + 1 == count && i > 0 ? end : start + static_cast<double>(i) * step;
  });
}

Tensor Tensor::eye(int64_t n, DType dtype) {
  return generate({dtype, {n, n}}, [&](int64_t i) { return i / n == i % n ? 1.0 : 0.0; });
}

Tensor Tensor::rand(const Shape& shape, Generator& rng, double low, double high, DType dtype) {
  return random(op::random_uniform, shape, rng, low, high, dtype);
}
Tensor Tensor::randn(const Shape& shape, Generator& rng, DType dtype) {
  return random(op::random_normal, shape, rng, 0, 1, dtype);
}

Tensor Tensor::randint(const Shape& shape, Generator& rng, int64_t low, int64_t high) {
  if (low >= high) return error(invalid("randint: [{}, {}) is empty", low, high));
  const uint64_t counter = rng.next();
  auto data = TensorData::allocate({DType::i64, shape});
  if (!data.ok()) return error(data.status());
  for (int64_t i = 0; i < data->numel(); ++i)
    data->as_mutable<int64_t>()[i] =
        low + below(high - low, rng.seed(), counter, static_cast<uint64_t>(i));
  return detail::make_tensor(std::move(*data));
}

Tensor Tensor::randperm(int64_t n, Generator& rng) {
  Tensor t = arange(n);
  if (!t.ok()) return t;
  const uint64_t counter = rng.next();
  int64_t* order = t.impl()->storage->data.as_mutable<int64_t>();
  for (int64_t i = n - 1; i > 0; --i)  // Fisher and Yates
    std::swap(order[i], order[below(i + 1, rng.seed(), counter, static_cast<uint64_t>(i))]);
  return t;
}

}  // namespace hone
