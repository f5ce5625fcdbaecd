// SPDX-License-Identifier: Apache-2.0
// Element-wise expressions: a chain of element-wise operators in one pass over memory. The
// expression is a list of instructions over registers; each register is a tile of floats that stays
// in the nearest cache. Booleans are floats in it, 0 or 1.
#pragma once

#include "backends/cpu/region.hpp"

namespace hone::cpu {

/// What an instruction computes from its operands a, b, c and its numbers p, q. Meanings are those
/// of the operators with the same names.
enum class Fn : uint8_t {
  copy,
  neg,
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  tanh,
  erf,
  sign,
  floor,
  ceil,
  round,
  logical_not,
  is_nan,
  relu,
  sigmoid,
  silu,
  gelu,
  gelu_tanh,
  hard_sigmoid,  // p a + q
  hard_swish,
  leaky_relu,  // slope p
  elu,         // p
  softplus,
  clip,  // between p and q
  add,
  sub,
  mul,
  div,
  maximum,
  minimum,
  equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_xor,
  where,
  center,   // (a - b) - c
  mul_add,  // a b + c, both rounded
};

/// Numbers of registers; `to` is written, `a`, `b` and `c` are read as the function needs them.
struct Instruction {
  Fn fn = Fn::copy;
  uint8_t to = 0, a = 0, b = 0, c = 0;
  float p = 0, q = 0;
};

/// Runs the instructions in order on the first n elements of the registers (n > 0). A register that
/// is written may be one that is read.
void run_tile(std::span<const Instruction> code, float* const* registers, int64_t n);
/// 0 and 1 from booleans, and back.
void floats_from_bools(const uint8_t* from, float* to, int64_t n);
void bools_from_floats(const float* from, uint8_t* to, int64_t n);

/// An operand as the kernel sees it: its axes in the order they have in memory, broadcast against
/// the result.
struct PointwiseOperand {
  DType dtype = DType::f32;  ///< f32 or bool
  Shape shape;
};

/// The instruction for a node, registers aside; false if there is none for its operator.
bool pointwise_instruction(const Node& node, Instruction& out);
/// Whether a node can be an instruction: its operator, dtypes and shapes.
bool accepts_pointwise(const Graph& g, const Node& node);

/// Adds one step for a group of such nodes.
Status lower_pointwise(Region& region, const Group& group);
/// Adds a step that writes the deferred image `v`.
void write_image(Region& region, ValueId v, const Deferred& how);

/// An expression under construction: operands first, then nodes in order.
class Expression {
 public:
  static constexpr int kMaxOperands = 48, kMaxInstructions = 56;

  /// A register that holds operand `index` of the step's reads.
  int add_operand(PointwiseOperand operand);
  /// A register that holds the instruction's result.
  int add(Instruction i, std::span<const int> inputs);

  int operands() const { return static_cast<int>(operands_.size()); }
  int size() const { return static_cast<int>(code_.size()); }

  /// The kernel: reads the operands, writes the last instruction's result as `out`. Scratch:
  /// `scratch_bytes` for that many threads.
  std::unique_ptr<Kernel> kernel(const PointwiseOperand& out) const;
  int64_t scratch_bytes(int threads) const;
  /// Operands whose bytes the result may take over.
  std::vector<MayShare> may_share(const PointwiseOperand& out,
                                  std::span<const BufferId> reads) const;

 private:
  std::vector<PointwiseOperand> operands_;
  std::vector<Instruction> code_;
};

}  // namespace hone::cpu
