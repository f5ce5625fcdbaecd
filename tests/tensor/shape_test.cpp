// SPDX-License-Identifier: Apache-2.0
#include "hone/shape.hpp"

#include <vector>

#include "tests/support/check.hpp"

namespace hone {
namespace {

using test::must;

std::string text(const Shape& s) { return to_string(s); }

TEST_CASE("a shape has a rank, a product and a text") {
  const Shape s = {2, 3, 4};
  CHECK_EQ(s.rank(), 3);
  CHECK_EQ(s.numel(), 24);
  CHECK_EQ(s.product(1, 3), 12);
  CHECK_EQ(s.product(1, 1), 1);
  CHECK_EQ(text(s), "[2, 3, 4]");
}

TEST_CASE("a scalar has one element, an empty tensor none") {
  CHECK_EQ(Shape{}.numel(), 1);
  CHECK_EQ(text(Shape{}), "[]");
  CHECK_EQ((Shape{3, 0, 2}).numel(), 0);
}

TEST_CASE("insert and erase shift the axes behind") {
  Shape s = {2, 3};
  s.insert(1, 7);
  CHECK_EQ(text(s), "[2, 7, 3]");
  s.insert(0, 9);
  CHECK_EQ(text(s), "[9, 2, 7, 3]");
  s.insert(4, 5);
  CHECK_EQ(text(s), "[9, 2, 7, 3, 5]");
  s.erase(0);
  s.erase(3);
  CHECK_EQ(text(s), "[2, 7, 3]");
}

TEST_CASE("shapes compare by rank and extents, not by what an erased axis left behind") {
  Shape s = {2, 3, 4};
  s.erase(2);
  CHECK(s == Shape{2, 3});
  CHECK_FALSE(s == Shape{2, 3, 1});
}

TEST_CASE("more than eight dimensions from outside are refused") {
  const std::vector<int64_t> eight(8, 1), nine(9, 1);
  CHECK_EQ(must(Shape::make(eight)).rank(), 8);
  CHECK_ERROR(Shape::make(nine), Code::invalid_argument, "9 dimensions, at most 8");
}

TEST_CASE("a negative extent stands for a named dimension") {
  CHECK((Shape{2, 3}).concrete());
  CHECK_FALSE((Shape{-1, 3}).concrete());
}

TEST_CASE("strides are row-major") {
  CHECK_EQ(text(strides_of({2, 3, 4})), "[12, 4, 1]");
  CHECK_EQ(text(strides_of({})), "[]");
}

TEST_CASE("bytes are counted without overflow") {
  CHECK_EQ(must(checked_bytes({2, 3}, DType::f64)), 48);
  CHECK_EQ(must(checked_bytes({}, DType::i8)), 1);
  CHECK_EQ(must(checked_bytes({int64_t{1} << 31, int64_t{1} << 28}, DType::f64)), int64_t{1} << 62);
  CHECK_ERROR(checked_bytes({int64_t{1} << 31, int64_t{1} << 29}, DType::f64),
              Code::invalid_argument, "too large");
  CHECK_ERROR(checked_bytes({2, -1}, DType::f32), Code::invalid_argument, "[2, -1]");
}

TEST_CASE("a zero extent does not excuse a product that overflows") {
  const int64_t huge = int64_t{1} << 40;
  CHECK_EQ(must(checked_bytes({0, 5}, DType::f32)), 0);
  CHECK_ERROR(checked_bytes({0, huge, huge}, DType::f32), Code::invalid_argument, "too large");
  CHECK_ERROR(checked_bytes({huge, huge, 0}, DType::f32), Code::invalid_argument, "too large");
}

TEST_CASE("broadcasting follows NumPy") {
  CHECK_EQ(text(must(broadcast({4, 1, 3}, {2, 1}))), "[4, 2, 3]");
  CHECK_EQ(text(must(broadcast({}, {2, 3}))), "[2, 3]");
  CHECK_EQ(text(must(broadcast({0}, {1}))), "[0]");
  CHECK_EQ(text(must(broadcast({1}, {0}))), "[0]");
  CHECK_ERROR(broadcast({2, 3}, {2, 4}), Code::invalid_argument, "[2, 3] and [2, 4]");
  CHECK_ERROR(broadcast({0}, {2}), Code::invalid_argument, "do not broadcast");
}

TEST_CASE("an axis counts from either end") {
  CHECK_EQ(must(normalize_axis(-1, 3)), 2);
  CHECK_EQ(must(normalize_axis(0, 3)), 0);
  CHECK_ERROR(normalize_axis(3, 3), Code::invalid_argument, "axis 3");
  CHECK_ERROR(normalize_axis(-4, 3), Code::invalid_argument, "[-3, 2]");
  CHECK_ERROR(normalize_axis(0, 0), Code::invalid_argument, "0 dimensions");
}

TEST_CASE("a tensor type prints dtype and shape") {
  CHECK_EQ(to_string(TensorType{DType::bf16, {2, 3}}), "bf16[2, 3]");
  CHECK_EQ((TensorType{DType::i64, {2, 3}}).bytes(), 48);
}

}  // namespace
}  // namespace hone
