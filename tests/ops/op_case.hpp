// SPDX-License-Identifier: Apache-2.0
// Test cases for operators. One line says an operator, its attributes and its inputs; the case then
// goes through every suite (suites.hpp):
//
//   OP_CASE(softmax, {.attrs = AxisAttrs{1}, .in = {{4, 7}}, .range = {-3, 3}, .tol = 1e-6})
//   OP_CASE(gather, {.attrs = AxisAttrs{0}, .in = {{5, 2}, In::indices({3}, 5)}})
//   OP_CASE(clip, {.attrs = ClipAttrs{2, 1}, .in = {In::of({3}, {-2, 0, 6})}, .expect = {{1, 1,
//   1}}}) OP_REJECTS(add, {.in = {{2, 3}, {4}}}, "do not broadcast")
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"

namespace hone::test {

struct Range {
  double low = -2, high = 2;
};

/// One input: random values in the case's range and type unless it says otherwise.
struct In {
  In() = default;
  In(std::initializer_list<int64_t> dims) : shape(dims) {}  // NOLINT: `.in = {{4, 7}}` is the point

  /// Given values, in the case's type.
  static In of(const Shape& shape, std::vector<double> values);
  /// Given values in a type that stays the same whatever the case's type.
  static In typed(DType dtype, const Shape& shape, std::vector<double> values);
  /// Random i64 values in [-extent, extent).
  static In indices(const Shape& shape, int64_t extent);
  /// A constant, one-dimensional i64 input: shapes, axes.
  static In ints(std::initializer_list<int64_t> values);
  /// Random values in a range of its own.
  static In within(const Shape& shape, double low, double high);
  /// Random bools.
  static In bools(const Shape& shape);
  /// In f32 where the case's type is narrower: statistics, moments.
  static In wide(const Shape& shape, std::optional<Range> range = {});
  /// An optional input that is left out.
  static In none();
  /// The same input as a constant of the graph.
  In as_constant() const;

  Shape shape;
  std::optional<DType> dtype;
  std::optional<Range> range;
  std::vector<double> values;
  bool at_least_f32 = false;
  bool absent = false;
  bool constant = false;
};

enum class Grad : uint8_t {
  check,   ///< First derivatives against differences.
  second,  ///< First and second.
  skip,    ///< Not here: at a kink, or a gradient that is wanted to differ from the slope.
};

struct OpCase {
  Attrs attrs;
  std::vector<In> in;
  /// The type of inputs that do not fix their own. f64 cases are repeated in every type the
  /// operator takes.
  DType dtype = DType::f64;
  Range range;
  Grad grad = Grad::second;
  double tol = 1e-5;       ///< f32 against f64, relative to the largest output.
  double tol_f16 = 4e-3;   ///< The same for f16; bf16 has eight times that.
  double tol_grad = 1e-6;  ///< Gradients against differences, in f64.
  /// What the outputs must be, where the case says so; NaN means NaN.
  std::vector<std::vector<double>> expect;
  std::optional<Shape> expect_shape;
};

/// A case with where it stands.
struct PlacedCase {
  const OpDef& op;
  const char* file;
  int line;
};

void run_case(const PlacedCase& where, const OpCase& c);
/// The operator refuses the case, when inferring types or when running, with a message that has
/// `part`.
void run_rejection(const PlacedCase& where, const OpCase& c, const char* part);

/// Remembers which operators have cases.
struct CaseRegistrar {
  explicit CaseRegistrar(const OpDef& op);
};
bool has_case(const OpDef& op);
/// The types that cases of the operator have run in so far, as bits by DType.
uint32_t types_run(const OpDef& op);

}  // namespace hone::test

#define HONE_STRING_(x) #x
#define HONE_STRING(x) HONE_STRING_(x)

#define OP_CASE(name, ...)                                                                      \
  static const ::hone::test::CaseRegistrar HONE_CONCAT(registrar_, __LINE__){::hone::op::name}; \
  TEST_CASE(#name ", case of line " HONE_STRING(__LINE__)) {                                    \
    const ::hone::test::OpCase op_case = __VA_ARGS__;                                           \
    ::hone::test::run_case({::hone::op::name, __FILE__, __LINE__}, op_case);                    \
  }

// The last argument is the part of the message.
#define OP_REJECTS(name, ...)                                                         \
  TEST_CASE(#name " refuses, line " HONE_STRING(__LINE__)) {                          \
    ::hone::test::run_rejection({::hone::op::name, __FILE__, __LINE__}, __VA_ARGS__); \
  }
