// SPDX-License-Identifier: Apache-2.0
// From a case's line to tensors, and through the suites in every element type.
#include "tests/ops/op_case.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/ops/execute.hpp"
#include "tests/ops/suites.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

In In::of(const Shape& shape, std::vector<double> values) {
  In in;
  in.shape = shape;
  in.values = std::move(values);
  return in;
}
In In::typed(DType dtype, const Shape& shape, std::vector<double> values) {
  In in = of(shape, std::move(values));
  in.dtype = dtype;
  return in;
}
In In::indices(const Shape& shape, int64_t extent) {
  In in;
  in.shape = shape;
  in.dtype = DType::i64;
  in.range = {-static_cast<double>(extent), static_cast<double>(extent)};
  return in;
}
In In::ints(std::initializer_list<int64_t> values) {
  In in = typed(DType::i64, {static_cast<int64_t>(values.size())}, {values.begin(), values.end()});
  in.constant = true;
  return in;
}
In In::within(const Shape& shape, double low, double high) {
  In in;
  in.shape = shape;
  in.range = {low, high};
  return in;
}
In In::bools(const Shape& shape) {
  In in;
  in.shape = shape;
  in.dtype = DType::bool_;
  return in;
}
In In::wide(const Shape& shape, std::optional<Range> range) {
  In in;
  in.shape = shape;
  in.range = range;
  in.at_least_f32 = true;
  return in;
}
In In::none() {
  In in;
  in.absent = true;
  return in;
}
In In::as_constant() const {
  In in = *this;
  in.constant = true;
  return in;
}

namespace {

std::vector<const OpDef*>& ops_with_cases() {
  static std::vector<const OpDef*> ops;
  return ops;
}

std::map<const OpDef*, uint32_t>& types_by_op() {
  static std::map<const OpDef*, uint32_t> types;
  return types;
}

void note_type(const OpDef& op, DType t) { types_by_op()[&op] |= 1u << static_cast<int>(t); }

TensorData make_input(const In& in, const OpCase& c, DType dtype, uint64_t seed) {
  if (in.absent) return {};
  DType t = in.dtype.value_or(dtype);
  if (in.at_least_f32 && t != DType::f64) t = DType::f32;
  if (!in.values.empty() || in.shape.numel() == 0) return tensor_from({t, in.shape}, in.values);
  Range range = in.range.value_or(c.range);
  if (t == DType::u8) range.low = std::max(range.low, 0.0);
  if (!is_float(t)) range.high = std::max(std::ceil(range.high), range.low + 1);
  return random_tensor({t, in.shape}, seed, range.low, range.high);
}

// Infers and runs the operator as a graph of one node.
Status run_one(Instance& x) {
  std::vector<const TensorType*> types;
  std::vector<const TensorData*> constants;
  for (size_t i = 0; i < x.inputs.size(); ++i) {
    const TensorData& t = x.inputs[i];
    types.push_back(t.defined() ? &t.type() : nullptr);
    constants.push_back(t.defined() && x.c.in[i].constant ? &t : nullptr);
  }
  HONE_ASSIGN(x.out_types, infer(x.op, "", types, constants, x.attrs));
  OneOpGraph g;
  build_one_op(x, Composites::expand, g);
  HONE_TRY(g.status);
  HONE_TRY(verify(g.graph));
  HONE_ASSIGN(x.outputs, run_graph(g.graph, g.graph_inputs, g.outputs));
  CHECK_EQ(x.outputs.size(), x.out_types.size());
  for (size_t k = 0; k < x.outputs.size(); ++k)
    CHECK_EQ(to_string(x.outputs[k].type()), to_string(x.out_types[k]));
  return {};
}

Instance instance(const OpDef& op, const OpCase& c, DType dtype) {
  Instance x{op, c, c.attrs.empty() ? Attrs::defaults(*op.attrs) : c.attrs, {}, {}, {}};
  uint64_t seed = 1;
  for (const In& in : c.in) x.inputs.push_back(make_input(in, c, dtype, seed++));
  return x;
}

// The same inputs in f64; those of a fixed type stay as they are.
Instance in_f64(const Instance& from) {
  Instance x{from.op, from.c, from.attrs, from.inputs, {}, {}};
  for (size_t i = 0; i < x.inputs.size(); ++i)
    if (x.inputs[i].defined() && !from.c.in[i].dtype)
      x.inputs[i] = must(cast(x.inputs[i], DType::f64));
  return x;
}

void check_expectations(const Instance& x) {
  for (size_t k = 0; k < x.c.expect.size(); ++k) {
    REQUIRE_LT(k, x.outputs.size());
    REQUIRE_EQ(x.outputs[k].numel(), static_cast<int64_t>(x.c.expect[k].size()));
    const TensorData wanted = tensor_from({DType::f64, x.outputs[k].shape()}, x.c.expect[k]);
    INFO("expected values of output " << k);
    CHECK(all_close(must(cast(x.outputs[k], DType::f64)), wanted, 1e-6, 1e-9));
  }
  if (x.c.expect_shape) CHECK_EQ(to_string(x.outputs[0].shape()), to_string(*x.c.expect_shape));
}

void check_kernel_suites(const Instance& x) {
  check_kernel(x);
  check_decomposition(x);
  check_in_place(x);
  check_backends(x);
}

// Lower precision against f64 on the same, already rounded inputs.
void check_float_type(const OpDef& op, const OpCase& c, DType t) {
  INFO("in " << std::string(to_string(t)));
  Instance low = instance(op, c, t);
  REQUIRE_OK(run_one(low));
  note_type(op, t);
  check_kernel_suites(low);
  Instance reference = in_f64(low);
  REQUIRE_OK(run_one(reference));
  const double tol = t == DType::f32 ? c.tol : t == DType::f16 ? c.tol_f16 : 8 * c.tol_f16;
  for (size_t k = 0; k < low.outputs.size(); ++k) {
    INFO("against f64, output " << k);
    check_close(low.outputs[k], reference.outputs[k], is_float(low.out_types[k].dtype) ? tol : 0);
  }
}

// Integer kernels give what f64 gives, truncated, where the type can hold that.
void check_integer_type(const OpDef& op, const OpCase& c, DType t) {
  INFO("in " << std::string(to_string(t)));
  Instance low = instance(op, c, t);
  if (!run_one(low).ok()) return;  // most operators take floats only
  note_type(op, t);
  check_kernel_suites(low);
  Instance reference = in_f64(low);
  if (!run_one(reference).ok()) return;  // and some only integers
  for (size_t k = 0; k < low.outputs.size(); ++k)
    for (int64_t i = 0; i < low.outputs[k].numel(); ++i) {
      const double wanted = std::trunc(reference.outputs[k].at(i));
      if (!(std::fabs(wanted) < 100) || (t == DType::u8 && wanted < 0)) continue;
      const bool as_bool = low.out_types[k].dtype == DType::bool_;
      CHECK_EQ(low.outputs[k].at(i), as_bool ? double(wanted != 0) : wanted);
    }
}

}  // namespace

CaseRegistrar::CaseRegistrar(const OpDef& op) { ops_with_cases().push_back(&op); }

bool has_case(const OpDef& op) {
  const auto& ops = ops_with_cases();
  return std::find(ops.begin(), ops.end(), &op) != ops.end();
}

uint32_t types_run(const OpDef& op) {
  const auto found = types_by_op().find(&op);
  return found == types_by_op().end() ? 0 : found->second;
}

void run_case(const PlacedCase& where, const OpCase& c) {
  INFO(std::string(where.file) << ":" << where.line);
  Instance x = instance(where.op, c, c.dtype);
  REQUIRE_OK(run_one(x));
  // Of the first input there is; of the output where there is none.
  const auto first = std::find_if(x.inputs.begin(), x.inputs.end(),
                                  [](const TensorData& t) { return t.defined(); });
  note_type(where.op, first == x.inputs.end() ? x.outputs[0].dtype() : first->dtype());
  check_expectations(x);
  check_kernel_suites(x);
  check_attributes(x);
  check_save_and_load(x);
  if (c.dtype != DType::f64) return;
  check_gradient(x);
  const bool follows =
      std::any_of(c.in.begin(), c.in.end(), [](const In& in) { return !in.dtype && !in.absent; });
  if (!follows) return;
  for (const DType t : {DType::f32, DType::f16, DType::bf16}) check_float_type(where.op, c, t);
  for (const DType t : {DType::i8, DType::u8, DType::i32, DType::i64, DType::bool_})
    check_integer_type(where.op, c, t);
}

void run_rejection(const PlacedCase& where, const OpCase& c, const char* part) {
  INFO(std::string(where.file) << ":" << where.line);
  Instance x = instance(where.op, c, c.dtype);
  const Status status = run_one(x);
  CHECK_MESSAGE(!status.ok(), "was accepted");
  CHECK_NE(to_string(status.code()), "internal error");
  CHECK_MESSAGE(status.message().find(part) != std::string::npos,
                "the message is: " << status.message());
  CHECK_MESSAGE(status.message().find(where.op.name) != std::string::npos,
                "the message does not name the operator: " << status.message());
}

}  // namespace hone::test
