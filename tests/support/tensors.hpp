// SPDX-License-Identifier: Apache-2.0
// Tensors for tests: seeded random data and comparison that says where two tensors differ.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "hone/tensor_data.hpp"

namespace hone::test {

/// Uniform values in [lo, hi), the same for the same seed on every machine. Integers are uniform
/// among those in [lo, hi); bools are fair coins whatever the range. Ends the test case when there
/// is no memory.
TensorData random_tensor(const TensorType& type, uint64_t seed, double lo = -1, double hi = 1);

/// A tensor of the given values: tensor_of<float>({2, 2}, {1, 2, 3, 4}).
TensorData tensor_from(const TensorType& type, const std::vector<double>& values);
template <class T>
TensorData tensor_of(const Shape& shape, std::initializer_list<double> values) {
  return tensor_from({dtype_of<T>, shape}, values);
}

/// The outcome of a comparison; prints as what differs.
struct Closeness {
  bool close = false;
  std::string difference;  ///< Empty when close.
  explicit operator bool() const { return close; }
};
std::ostream& operator<<(std::ostream& out, const Closeness& c);

/// Same type, and |a - b| <= atol + rtol * |b| everywhere. NaN equals NaN and infinity equals
/// itself. The difference names the first element that is off, the worst one, and how many there
/// are.
Closeness all_close(const TensorData& a, const TensorData& b, double rtol, double atol);

/// Same type and the same bytes.
Closeness same_bits(const TensorData& a, const TensorData& b);

}  // namespace hone::test
