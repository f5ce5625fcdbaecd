// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: what is known is computed, what is free stays free.
#include "hone/op_attrs_index.hpp"
#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

struct Case {
  std::string name;
  Draw draw;
  std::string expected;
};

// The model after simplification, which gives the same bits for every extent of the free axes.
Model check(const Case& c) {
  INFO(c.name);
  const Model before = drawn(c.draw);
  const Model after = simplified(before, {.recognise = kExact});
  CHECK_EQ(operators(after.graph), c.expected);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, 3}, {1, 6}, {5, 1}})
    CHECK(same_bits(outputs(after, extents)[0], outputs(before, extents)[0]));
  return after;
}

Value reshaped(Sketch& s, Value v, std::vector<Value> shape) {
  return s.b.emit(op::reshape_dyn, {v, s.joined(std::move(shape))});
}

std::vector<int64_t> shape_of_reshape(const Model& m) {
  for (const Node& n : m.graph.nodes)
    if (n.op == &op::reshape) return n.attrs.as<ShapeAttrs>().shape;
  return {};
}

TEST_CASE("extents of the input are copied by a reshape, not fixed") {
  const Model m = check(
      {"split into heads",
       [](Sketch& s) {
         return reshaped(s, s.x, {s.extent(s.x, 0), s.extent(s.x, 1), s.ints({2}), s.ints({2})});
       },
       "reshape"});
  CHECK_EQ(shape_of_reshape(m), std::vector<int64_t>{0, 0, 2, 2});
}

TEST_CASE("one extent that has another place is what is left") {
  const Model rows = check({"rows",
                            [](Sketch& s) {
                              const Value n = s.extent(s.x, 0), t = s.extent(s.x, 1);
                              return reshaped(s, s.x, {s.b.emit(op::mul, {n, t}), s.ints({4})});
                            },
                            "reshape"});
  CHECK_EQ(shape_of_reshape(rows), std::vector<int64_t>{-1, 4});
  check({"two of them cannot be said",
         [](Sketch& s) {
           const Value t = s.b.emit(op::transpose, {s.x}, PermAttrs{{1, 0, 2}});
           return reshaped(s, t, {s.extent(s.x, 0), s.extent(s.x, 1), s.ints({4})});
         },
         "transpose shape_of gather gather concat reshape_dyn"});
}

TEST_CASE("a dimension of one name is one, whichever value it is taken from") {
  const Model m = check({"the other input's",
                         [](Sketch& s) {
                           const Value other = s.input("z", {s.model.graph.dim("N"), 7});
                           return reshaped(s, s.x, {s.extent(other, 0), s.ints({-1})});
                         },
                         "reshape"});
  CHECK_EQ(shape_of_reshape(m), std::vector<int64_t>{0, -1});
  check({"of another name",
         [](Sketch& s) {
           const Value other = s.input("z", {s.model.graph.dim("T"), 7});
           return reshaped(s, s.x, {s.extent(other, 0), s.ints({-1})});
         },
         "shape_of gather concat reshape_dyn"});
}

TEST_CASE("extents that are fixed are known through reshapes, transposes and sums") {
  check({"the last axis of a value four nodes away",
         [](Sketch& s) {
           Value v = s.b.emit(op::reshape, {s.x}, ShapeAttrs{{0, 0, 2, 2}, false});
           v = s.b.emit(op::transpose, {v}, PermAttrs{{0, 2, 1, 3}});
           v = s.b.emit(op::add, {v, s.number(1, {1, 2, 1, 1})});
           const Value size = s.b.emit(op::cast, {s.extent(v, 3)}, CastAttrs{DType::f32});
           return s.b.emit(op::div, {v, s.b.emit(op::sqrt, {size})});
         },
         "reshape transpose add div"});
}

TEST_CASE("what -1 stands for is known when one named dimension is left") {
  const Model m = check({"rows and back",
                         [](Sketch& s) {
                           const Value other = s.input("z", {s.model.graph.dim("N"), 6});
                           Value v = s.b.emit(op::reshape, {other}, ShapeAttrs{{-1, 2, 3}, false});
                           v = ops::exp(v);
                           return reshaped(s, v, {s.extent(s.x, 0), s.ints({6})});
                         },
                         "reshape exp reshape"});
  CHECK_EQ(operators(m.graph), "reshape exp reshape");
}

TEST_CASE("slices with known ends become plain; ends at a free extent stay computed") {
  const auto up_to = [](int64_t axis) {
    return [axis](Sketch& s) {
      const Value end = s.b.emit(op::sub, {s.extent(s.x, axis), s.ints({axis == 2 ? 2 : 0})});
      return s.b.emit(op::slice_dyn, {s.x, s.ints({0}), end, s.ints({axis})});
    };
  };
  check({"fixed", up_to(2), "slice"});
  check({"free", up_to(1), "shape_of gather slice_dyn"});
}

TEST_CASE("inputs that are constant become attributes") {
  const auto with = [](const OpDef& op, std::vector<int64_t> v, Attrs attrs = {}) {
    return [&op, v, attrs](Sketch& s) { return s.b.emit(op, {s.x, s.ints(v)}, attrs); };
  };
  check({"axes of a sum", with(op::sum_dyn, {-1}, ReduceDynAttrs{false, false}), "sum"});
  check({"no axes: all", with(op::mean_dyn, {}, ReduceDynAttrs{true, false}), "mean"});
  check({"no axes: none", with(op::max_dyn, {}, ReduceDynAttrs{true, true}), ""});
  check({"tile", with(op::tile_dyn, {1, 2, 1}), "tile"});
  check({"tile once", with(op::tile_dyn, {1, 1, 1}), ""});
  check({"pad", with(op::pad_dyn, {0, 1, 0, 0, 0, 2}), "pad"});
  check({"pad of some axes",
         [](Sketch& s) {
           return s.b.emit(op::pad_dyn, {s.x, s.ints({1, 2}), s.number(3), s.ints({-2})});
         },
         "pad"});
  check({"unsqueeze", with(op::unsqueeze_dyn, {0, -1}), "unsqueeze"});
  check({"expand", with(op::expand_dyn, {2, 1, 1, 4}), "expand"});
  check({"pad by a free extent",
         [](Sketch& s) {
           const Value t = s.extent(s.x, 1), zero = s.ints({0});
           return s.b.emit(op::pad_dyn, {s.x, s.joined({zero, t, zero, zero, zero, zero})});
         },
         "shape_of gather concat pad_dyn"});
}

TEST_CASE("reshapes of reshapes become one, squeezes cancel") {
  const auto twice = [](std::vector<int64_t> a, std::vector<int64_t> b) {
    return [a, b](Sketch& s) {
      const Value first = s.b.emit(op::reshape, {s.x}, ShapeAttrs{a, false});
      return s.b.emit(op::reshape, {first}, ShapeAttrs{b, false});
    };
  };
  check({"the first does not matter", twice({0, -1}, {-1, 2}), "reshape"});
  check({"the second copies from the first", twice({0, -1}, {0, 2, -1}), "reshape reshape"});
  check({"to its own shape", twice({0, 0, 4}, {0, 0, -1}), ""});
  check({"squeeze of unsqueeze",
         [](Sketch& s) {
           const Value u = s.b.emit(op::unsqueeze, {s.x}, AxesAttrs{{1}});
           return s.b.emit(op::squeeze, {u}, AxesAttrs{{1}});
         },
         ""});
  check({"squeeze of another axis",
         [](Sketch& s) {
           const Value one = s.mean(s.x, {2});
           const Value u = s.b.emit(op::unsqueeze, {one}, AxesAttrs{{1}});
           return s.b.emit(op::squeeze, {u}, AxesAttrs{{3}});
         },
         "mean unsqueeze squeeze"});
}

TEST_CASE("a part that is joined with itself over and over is not followed for ever") {
  Sketch s;
  Value v = s.extent(s.x, 0);
  for (int i = 0; i < 40; ++i) {
    const Value none = s.b.emit(op::slice, {v}, SliceAttrs{{0}, {0}, {0}, {}});
    v = s.joined({none, none, v, none, none});
  }
  s.b.output(reshaped(s, s.x, {v, s.ints({-1})}), "y");
  REQUIRE_OK(s.b.status());
  const Model after = simplified(s.model, {.recognise = kExact});
  CHECK(same_bits(outputs(after, {2, 3})[0], outputs(s.model, {2, 3})[0]));
}

}  // namespace
}  // namespace hone
