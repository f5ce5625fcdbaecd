// SPDX-License-Identifier: Apache-2.0
#include "hone/tensor_data.hpp"

#include <cmath>
#include <limits>

#include "core/tensor/convert.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using test::must;
using test::tensor_of;

TEST_CASE("allocated tensors are aligned and writable") {
  for (int64_t n : {0, 1, 7, 1000}) {
    TensorData t = must(TensorData::zeros({DType::f32, {n}}));
    CHECK(t.defined());
    CHECK_EQ(reinterpret_cast<uintptr_t>(t.data()) % kAlignment, 0u);
    CHECK(t.mutable_data() != nullptr);
    CHECK_EQ(t.bytes(), 4 * n);
    for (int64_t i = 0; i < n; ++i) CHECK_EQ(t.at(i), 0.0);
  }
}

TEST_CASE("impossible sizes are refused before anything is allocated") {
  const int64_t huge = int64_t{1} << 40;
  CHECK_ERROR(TensorData::allocate({DType::f32, {huge, huge}}), Code::invalid_argument,
              "too large");
  CHECK_ERROR(TensorData::allocate({DType::f32, {-1}}), Code::invalid_argument, "negative");
}

TEST_CASE("a copy needs exactly the bytes of its type") {
  const float values[] = {1, 2, 3};
  const auto bytes = std::as_bytes(std::span(values));
  CHECK_EQ(must(TensorData::copy_of({DType::f32, {3}}, bytes)).at(2), 3.0);
  CHECK_ERROR(TensorData::copy_of({DType::f32, {4}}, bytes), Code::invalid_argument,
              "needs 16 bytes, got 12");
}

TEST_CASE("copies share bytes, clones do not") {
  TensorData a = tensor_of<float>({2}, {1, 2});
  TensorData b = a;
  CHECK(a.shares_bytes_with(b));
  CHECK_EQ(a.use_count(), 2);
  TensorData c = must(a.clone());
  c.as_mutable<float>()[0] = 9;
  CHECK_EQ(a.at(0), 1.0);
}

TEST_CASE("borrowed data keeps its owner alive and cannot be written") {
  auto owner = std::make_shared<std::vector<float>>(3, 5.0f);
  std::weak_ptr<std::vector<float>> watch = owner;
  TensorData t = TensorData::borrow({DType::f32, {3}}, owner->data(), owner);
  owner.reset();
  CHECK_EQ(t.at(1), 5.0);
  CHECK(t.mutable_data() == nullptr);
  t = TensorData();
  CHECK(watch.expired());
}

TEST_CASE("reshape shares the bytes and needs equally many elements") {
  const TensorData t = tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const TensorData r = must(t.reshaped({3, 2}));
  CHECK(r.shares_bytes_with(t));
  CHECK_EQ(to_string(r.type()), "f32[3, 2]");
  CHECK_ERROR(t.reshaped({4}), Code::invalid_argument, "[4]");
}

TEST_CASE("elements read as double or integer whatever the dtype") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    const TensorData t = test::tensor_from({dtype, {2}}, {0, 1});
    CHECK_EQ(t.at(1), 1.0);
    CHECK_EQ(t.int_at(0), 0);
  }
  CHECK_EQ(to_ints(tensor_of<float>({3}, {-1.7, 2.9, 0})), std::vector<int64_t>{-1, 2, 0});
}

TEST_CASE("casting floats to integers truncates, saturates, and makes NaN zero") {
  const TensorData x = tensor_of<double>({5}, {1.9, -1.9, 1e30, -1e30, NAN});
  CHECK(test::same_bits(must(cast(x, DType::i32)),
                        tensor_of<int32_t>({5}, {1, -1, 2147483647, -2147483648.0, 0})));
  CHECK(test::same_bits(must(cast(x, DType::u8)), tensor_of<uint8_t>({5}, {1, 0, 255, 0, 0})));
  CHECK_EQ(must(cast(x, DType::i64)).int_at(2), std::numeric_limits<int64_t>::max());
  CHECK_EQ(must(cast(x, DType::i64)).int_at(3), std::numeric_limits<int64_t>::min());
}

TEST_CASE("casting to bool asks whether it is zero") {
  const TensorData x = tensor_of<float>({4}, {0, -0.0, 0.25, NAN});
  CHECK(test::same_bits(must(cast(x, DType::bool_)), tensor_of<bool>({4}, {0, 0, 1, 1})));
}

TEST_CASE("casting integers to narrower integers wraps") {
  const TensorData x = tensor_of<int32_t>({3}, {257, -1, 128});
  CHECK(test::same_bits(must(cast(x, DType::u8)), tensor_of<uint8_t>({3}, {1, 255, 128})));
  CHECK(test::same_bits(must(cast(x, DType::i8)), tensor_of<int8_t>({3}, {1, -1, -128})));
}

TEST_CASE("every pair of dtypes converts small integers exactly") {
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      const TensorData x = test::tensor_from({static_cast<DType>(from), {2}}, {1, 0});
      const TensorData y = must(cast(x, static_cast<DType>(to)));
      CHECK_EQ(y.at(0), 1.0);
      CHECK_EQ(y.at(1), 0.0);
    }
}

TEST_CASE("a tensor describes its type, range, mean, NaNs and values") {
  CHECK_EQ(describe(tensor_of<float>({3}, {1, 2, 6})), "f32[3] min 1 max 6 mean 3 nan 0 [1, 2, 6]");
  CHECK_EQ(describe(tensor_of<float>({2}, {NAN, 4})), "f32[2] min 4 max 4 mean 4 nan 1 [nan, 4]");
  CHECK_EQ(describe(tensor_of<float>({1}, {NAN})), "f32[1] nan 1 [nan]");
  CHECK_EQ(describe(tensor_of<int32_t>({2, 2}, {1, 2, 3, 4})),
           "i32[2, 2] min 1 max 4 mean 2.5\n[[1, 2],\n [3, 4]]");
  CHECK_EQ(describe(tensor_of<int64_t>({}, {7})), "i64[] 7");
  CHECK_EQ(describe(tensor_of<bool>({2}, {0, 1})), "bool[2] min 0 max 1 mean 0.5 [false, true]");
  CHECK_EQ(describe(tensor_of<float>({0, 3}, {})), "f32[0, 3] (no elements)");
  CHECK_EQ(describe(TensorData()), "undefined");
}

TEST_CASE("a long tensor is elided in the middle") {
  const TensorData t = test::random_tensor({DType::i32, {100}}, 1, 0, 1);
  CHECK_EQ(describe(t), "i32[100] min 0 max 0 mean 0 [0, 0, 0, ..., 0, 0, 0]");
  CHECK(describe(t, 100).find("...") == std::string::npos);
}

TEST_CASE("random test data repeats for a seed and stays in range") {
  const TensorType type = {DType::f32, {1000}};
  const TensorData a = test::random_tensor(type, 7, -2, 3);
  CHECK(test::same_bits(a, test::random_tensor(type, 7, -2, 3)));
  CHECK_FALSE(test::same_bits(a, test::random_tensor(type, 8, -2, 3)).close);
  double sum = 0;
  bool inside = true;
  for (int64_t i = 0; i < 1000; ++i) {
    sum += a.at(i);
    inside = inside && a.at(i) >= -2 && a.at(i) <= 3;
  }
  CHECK(inside);
  CHECK(std::fabs(sum / 1000 - 0.5) < 0.2);  // four standard deviations of the mean are 0.18
}

TEST_CASE("comparison says where tensors differ first and worst") {
  const TensorData a = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  const TensorData b = tensor_of<float>({2, 2}, {1, 2.5, 3, 8});
  CHECK(test::all_close(a, a, 0, 0));
  CHECK(test::all_close(a, b, 0.5, 0));
  CHECK_EQ(test::all_close(a, b, 1e-6, 1e-6).difference,
           "2 of 4 elements differ; first at [0, 1]: 2 and 2.5, worst at [1, 1]: 4 and 8");
  CHECK_EQ(test::all_close(a, must(a.reshaped({4})), 0, 0).difference,
           "types f32[2, 2] and f32[4]");
}

TEST_CASE("in a comparison NaN equals NaN only, and infinity itself only") {
  const TensorData nan = tensor_of<float>({1}, {NAN}), inf = tensor_of<float>({1}, {INFINITY});
  const TensorData one = tensor_of<float>({1}, {1});
  CHECK(test::all_close(nan, nan, 0, 0));
  CHECK(test::all_close(inf, inf, 0, 0));
  CHECK_FALSE(test::all_close(nan, one, 1, 1).close);
  CHECK_FALSE(test::all_close(one, nan, 1, 1).close);
  CHECK_FALSE(test::all_close(one, inf, 1, 1).close);
  CHECK_FALSE(test::all_close(inf, one, 1, 1).close);
}

}  // namespace
}  // namespace hone
