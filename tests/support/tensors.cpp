// SPDX-License-Identifier: Apache-2.0
// Random tensors and their comparison.
#include "tests/support/tensors.hpp"

#include <cmath>
#include <cstring>
#include <ostream>

#include "core/tensor/convert.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): one well-mixed word per call.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// "[1, 2]" for flat element `i`.
std::string index_string(const Shape& shape, int64_t i) {
  Shape index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return to_string(index);
}

std::string element_string(const TensorData& a, const TensorData& b, int64_t i) {
  return format("{}: {} and {}", index_string(a.shape(), i), a.at(i), b.at(i));
}

}  // namespace

TensorData random_tensor(const TensorType& type, uint64_t seed, double lo, double hi) {
  TensorData t = must(TensorData::allocate(type));
  uint64_t state = seed;
  dispatch(type.dtype, [&]<class T>() {
    T* out = t.as_mutable<T>();
    for (int64_t i = 0; i < type.numel(); ++i) {
      const uint64_t word = next_random(state);
      const double unit = static_cast<double>(word >> 11) * 0x1p-53;
      const double value = lo + (hi - lo) * unit;
      if constexpr (std::is_same_v<T, bool>)
        out[i] = (word >> 63) != 0;
      else if constexpr (std::is_integral_v<T>)
        out[i] = static_cast<T>(std::floor(value));
      else
        out[i] = static_cast<T>(value);
    }
  });
  return t;
}

TensorData tensor_from(const TensorType& type, const std::vector<double>& values) {
  REQUIRE_EQ(type.numel(), static_cast<int64_t>(values.size()));
  TensorData t = must(TensorData::allocate(type));
  dispatch(type.dtype, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) t.as_mutable<T>()[i] = convert_element<T>(values[i]);
  });
  return t;
}

std::ostream& operator<<(std::ostream& out, const Closeness& c) {
  return out << (c.close ? std::string("close") : c.difference);
}

Closeness all_close(const TensorData& a, const TensorData& b, double rtol, double atol) {
  if (!a.defined() || !b.defined()) return {false, "an undefined tensor"};
  if (a.type() != b.type()) return {false, format("types {} and {}", a.type(), b.type())};
  int64_t bad = 0, first = -1, worst = -1;
  double worst_error = -1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::fabs(x - y);
    if (std::isfinite(y) && error <= atol + rtol * std::fabs(y)) continue;
    if (bad++ == 0) first = i;
    // A NaN or an infinity is worse than any number.
    const double rank = std::isfinite(error) ? error : INFINITY;
    if (rank > worst_error) {
      worst_error = rank;
      worst = i;
    }
  }
  if (bad == 0) return {true, {}};
  return {false, format("{} of {} elements differ; first at {}, worst at {}", bad, a.numel(),
                        element_string(a, b, first), element_string(a, b, worst))};
}

Closeness same_bits(const TensorData& a, const TensorData& b) {
  if (!a.defined() || !b.defined()) return {false, "an undefined tensor"};
  if (a.type() != b.type()) return {false, format("types {} and {}", a.type(), b.type())};
  const size_t width = size_of(a.dtype());
  const std::byte *x = a.as_bytes().data(), *y = b.as_bytes().data();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * width;
    if (std::memcmp(x + at, y + at, width) != 0)
      return {false, format("bits differ first at {}", element_string(a, b, i))};
  }
  return {true, {}};
}

}  // namespace hone::test
