// SPDX-License-Identifier: Apache-2.0
// How a tensor prints itself.
#include <algorithm>
#include <cmath>

#include "hone/tensor_data.hpp"

namespace hone {

namespace {

constexpr int64_t kEdge = 3;  // values shown at each end of a long axis

void print_element(std::string& out, const TensorData& t, int64_t i) {
  if (t.dtype() == DType::bool_)
    out += t.int_at(i) ? "true" : "false";
  else if (is_float(t.dtype()))
    out += format("{}", t.at(i));
  else
    out += format("{}", t.int_at(i));
}

// Prints axis `axis` starting at flat element `first`; elides the middle of axes longer than 2 *
// kEdge when asked.
void print_axis(std::string& out, const TensorData& t, int axis, int64_t first, bool elide) {
  if (axis == t.shape().rank()) return print_element(out, t, first);
  const int64_t n = t.shape()[axis];
  const int64_t step = t.shape().product(axis + 1, t.shape().rank());
  const bool innermost = axis + 1 == t.shape().rank();
  out += '[';
  for (int64_t i = 0; i < n; ++i) {
    if (i)
      out +=
          innermost ? std::string(", ") : ",\n" + std::string(static_cast<size_t>(axis) + 1, ' ');
    if (elide && n > 2 * kEdge && i == kEdge) {
      out += "...";
      i = n - kEdge - 1;
      continue;
    }
    print_axis(out, t, axis + 1, first + i * step, elide);
  }
  out += ']';
}

}  // namespace

std::string describe(const TensorData& t, int64_t max_values) {
  if (!t.defined()) return "undefined";
  std::string out = to_string(t.type());
  const int64_t n = t.numel();
  if (n == 0) return out + " (no elements)";
  if (is_float(t.dtype()) || n > 1) {
    double low = INFINITY, high = -INFINITY, sum = 0;
    int64_t nans = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = t.at(i);
      if (std::isnan(v)) {
        ++nans;
        continue;
      }
      low = std::min(low, v);
      high = std::max(high, v);
      sum += v;
    }
    if (nans < n)
      out += format(" min {} max {} mean {}", low, high, sum / static_cast<double>(n - nans));
    if (is_float(t.dtype())) out += format(" nan {}", nans);
  }
  out += t.shape().rank() > 1 ? "\n" : " ";
  print_axis(out, t, 0, 0, n > max_values);
  return out;
}

}  // namespace hone
