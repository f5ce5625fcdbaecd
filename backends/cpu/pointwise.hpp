// SPDX-License-Identifier: Apache-2.0
// Element-wise expressions: a chain of element-wise operators in one pass over memory. The
// expression is a list of instructions over registers; each register is a tile of floats that stays
// in the nearest cache. Booleans are floats in it, 0 or 1.
#pragma once

#include <array>

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

/// How a result's elements are walked over: as rows of `inner` elements. An operand's element (row,
/// column) stands at the sum of the row's index times `outer`, axis by axis, plus column * inner.
struct Walk {
  Shape extents;  ///< The outer axes.
  int64_t rows = 1, inner = 1;
  struct Operand {
    DType dtype = DType::f32;
    std::array<int64_t, kMaxRank> outer{};
    int64_t inner = 0;
    bool whole = false;   ///< Stands in memory as the result does.
    bool steady = false;  ///< The same in each row.
    bool scalar = false;
  };
  std::vector<Operand> operands;
};

/// An expression that is ready to be evaluated, tile by tile. Stays as it is; threads share it.
class Evaluator {
 public:
  static constexpr int64_t kTile = 1024;  ///< Floats; a dozen registers stay in the nearest cache.

  Evaluator(Walk walk, std::vector<Instruction> code, int registers);

  /// Floats of scratch for one thread.
  int64_t scratch_floats() const { return registers_ * kRegister; }
  int64_t elements() const { return walk_.rows * walk_.inner; }
  int64_t tile_elements() const { return rows_ * columns_; }
  /// Of an element, in additions, roughly.
  int64_t cost() const { return cost_; }
  int operands() const { return static_cast<int>(walk_.operands.size()); }

  /// One thread's evaluation, over operands in the order in which they were added.
  class Run {
   public:
    Run(const Evaluator& evaluator, void* const* operands, float* scratch);
    /// Writes the elements [first, first + count) of the result, which follow one another in
    /// memory.
    void evaluate(int64_t first, int64_t count, float* to);
    void evaluate_bools(int64_t first, int64_t count, uint8_t* to);

   private:
    struct Tile {
      int64_t row, rows, column, columns;
      int64_t count() const { return rows * columns; }
    };
    template <class F>
    void for_tiles(int64_t first, int64_t count, F f);
    void load(const Tile& tile);
    void fill(size_t operand, const Tile& tile, float* to) const;
    bool kept(const Walk::Operand& operand) const;

    const Evaluator& e_;
    void* const* operands_;
    float* scratch_;
    std::array<float*, 256> registers_;
  };

 private:
  /// Registers do not stand a multiple of 4096 bytes apart: a load would wait for a store to the
  /// same place of another page.
  static constexpr int64_t kRegister = kTile + 80;

  Walk walk_;
  std::vector<Instruction> code_;
  int64_t registers_ = 0;
  int64_t rows_ = 1, columns_ = 1;  // of a tile
  int64_t cost_ = 0;
};

/// A step's kernel: reads the operands, writes the result. Scratch: for each thread.
std::unique_ptr<Kernel> pointwise_kernel(Evaluator evaluator, DType out);

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

  /// Computes the last instruction's result, of that shape.
  Evaluator evaluator(const Shape& out) const;
  /// Operands whose bytes the result may take over.
  std::vector<MayShare> may_share(const PointwiseOperand& out,
                                  std::span<const BufferId> reads) const;

 private:
  std::vector<PointwiseOperand> operands_;
  std::vector<Instruction> code_;
};

/// The expression of element-wise `nodes`, the last of which makes an image, for a step that
/// evaluates it channels-last as it goes. Appends what it reads to `step.reads`.
Expression image_expression(Region& region, std::span<const NodeId> nodes, Step& step);

}  // namespace hone::cpu
