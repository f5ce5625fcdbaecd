// SPDX-License-Identifier: Apache-2.0
// Element-wise expressions: how tiles walk over the operands, and which registers they use.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/pointwise.hpp"

#include <algorithm>
#include <array>

namespace hone::cpu {

namespace {

// How much longer than an addition an instruction takes, roughly.
int weight(Fn fn) {
  switch (fn) {
    case Fn::exp:
    case Fn::log:
    case Fn::tanh:
    case Fn::erf:
    case Fn::sigmoid:
    case Fn::silu:
    case Fn::gelu:
    case Fn::gelu_tanh:
    case Fn::elu:
    case Fn::softplus:
      return 8;
    default:
      return 1;
  }
}

// ---- how the operands are walked

constexpr int64_t kTile = 1024;  // floats; a dozen registers stay in the nearest cache

// The result as rows of `inner` elements: an operand's element (row, column) stands at the sum of
// the row's index times `outer`, axis by axis, plus column * inner.
struct Walk {
  Shape extents;  // the outer axes
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

Walk make_walk(std::span<const PointwiseOperand> operands, const Shape& out) {
  Walk w;
  std::vector<Shape> strides;
  for (const PointwiseOperand& o : operands) strides.push_back(broadcast_strides(o.shape, out));
  // Axes join where all operands walk them in one stride.
  std::vector<int64_t> extents;
  std::vector<std::vector<int64_t>> axes;  // by axis: the operands' strides
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] == 1) continue;
    std::vector<int64_t> s;
    for (const Shape& own : strides) s.push_back(own[i]);
    bool joins = !extents.empty();
    for (size_t k = 0; joins && k < s.size(); ++k) joins = axes.back()[k] == s[k] * out[i];
    if (joins) {
      extents.back() *= out[i];
      axes.back() = s;
    } else {
      extents.push_back(out[i]);
      axes.push_back(s);
    }
  }
  if (!extents.empty()) {
    w.inner = extents.back();
    extents.pop_back();
  }
  w.extents = Shape(extents);
  w.rows = w.extents.numel();
  for (size_t k = 0; k < operands.size(); ++k) {
    Walk::Operand o;
    o.dtype = operands[k].dtype;
    o.inner = axes.empty() ? 0 : axes.back()[k];
    o.steady = true;
    int64_t whole = w.inner;
    o.whole = w.inner == 1 || o.inner == 1;
    for (size_t i = extents.size(); i-- > 0;) {
      o.outer[i] = axes[i][k];
      o.steady &= o.outer[i] == 0;
      o.whole &= o.outer[i] == whole;
      whole *= extents[i];
    }
    o.scalar = o.steady && (o.inner == 0 || w.inner == 1);
    if (w.rows * w.inner == 1) o.whole = true;
    w.operands.push_back(o);
  }
  return w;
}

// n elements from `from` on, `stride` apart.
void gather(const void* base, DType dtype, int64_t from, int64_t stride, float* to, int64_t n) {
  if (dtype == DType::f32) {
    const float* p = static_cast<const float*>(base) + from;
    if (stride == 1)
      std::copy_n(p, n, to);
    else if (stride == 0)
      std::fill_n(to, n, *p);
    else
      for (int64_t i = 0; i < n; ++i) to[i] = p[i * stride];
    return;
  }
  const uint8_t* p = static_cast<const uint8_t*>(base) + from;
  if (stride == 1)
    floats_from_bools(p, to, n);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = p[i * stride] ? 1.0f : 0.0f;
}

struct Tile {
  int64_t row, rows, column, columns;
  int64_t count() const { return rows * columns; }
};

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(Walk walk, std::vector<Instruction> code, int registers, DType out)
      : walk_(std::move(walk)), code_(std::move(code)), registers_(registers), out_(out) {
    for (const Instruction& i : code_) cost_ += weight(i.fn);
    if (walk_.inner >= kTile) {
      columns_ = kTile;
    } else {
      columns_ = walk_.inner;
      rows_ = std::min(walk_.rows, std::max<int64_t>(1, kTile / walk_.inner));
    }
    across_ = (walk_.inner + columns_ - 1) / columns_;
  }

  Status run(const StepArgs& args) override {
    const int64_t tiles = (walk_.rows + rows_ - 1) / rows_ * across_;
    constexpr int64_t kWork = 65536;  // for one thread, in additions
    const int64_t grain = std::max<int64_t>(1, kWork / (rows_ * columns_ * cost_));
    args.pool.parallel_for(tiles, grain, [&](int64_t begin, int64_t end, int worker) {
      run_range(args, begin, end, worker);
    });
    return {};
  }

 private:
  Tile tile(int64_t i) const {
    Tile t{i / across_ * rows_, 0, i % across_ * columns_, 0};
    t.rows = std::min(rows_, walk_.rows - t.row);
    t.columns = std::min(columns_, walk_.inner - t.column);
    return t;
  }

  // Whether the operand's register, once filled, serves every tile.
  bool kept(const Walk::Operand& o) const { return o.scalar || (o.steady && across_ == 1); }

  void fill(const StepArgs& args, size_t k, const Tile& t, float* to) const {
    const Walk::Operand& o = walk_.operands[k];
    const void* base = args.operands[k];
    if (o.whole) return gather(base, o.dtype, t.row * walk_.inner + t.column, 1, to, t.count());
    if (o.scalar) return gather(base, o.dtype, 0, 0, to, t.count());
    const int outer = walk_.extents.rank();
    std::array<int64_t, kMaxRank> index{};
    int64_t at = t.column * o.inner, rest = t.row;
    for (int i = outer - 1; i >= 0; --i) {
      const size_t d = static_cast<size_t>(i);
      index[d] = rest % walk_.extents[i];
      rest /= walk_.extents[i];
      at += index[d] * o.outer[d];
    }
    for (int64_t r = 0; r < t.rows; ++r, to += t.columns) {
      gather(base, o.dtype, at, o.inner, to, t.columns);
      for (int i = outer - 1; i >= 0; --i) {  // the next row
        const size_t d = static_cast<size_t>(i);
        at += o.outer[d];
        if (++index[d] < walk_.extents[i]) break;
        at -= index[d] * o.outer[d];
        index[d] = 0;
      }
    }
  }

  void run_range(const StepArgs& args, int64_t begin, int64_t end, int worker) const {
    float* const own =
        reinterpret_cast<float*>(args.scratch) + worker * static_cast<int64_t>(registers_) * kTile;
    std::array<float*, 256> registers;
    for (int r = 0; r < registers_; ++r) registers[static_cast<size_t>(r)] = own + r * kTile;
    const Tile first = tile(begin);
    for (size_t k = 0; k < walk_.operands.size(); ++k)
      if (kept(walk_.operands[k])) fill(args, k, widest(first), registers[k]);
    const size_t result = code_.back().to;
    for (int64_t i = begin; i < end; ++i) {
      const Tile t = tile(i);
      const int64_t at = t.row * walk_.inner + t.column;
      for (size_t k = 0; k < walk_.operands.size(); ++k) {
        const Walk::Operand& o = walk_.operands[k];
        if (o.whole && o.dtype == DType::f32)
          registers[k] = const_cast<float*>(args.in<float>(k)) + at;
        else if (!kept(o))
          fill(args, k, t, registers[k]);
      }
      const size_t out = walk_.operands.size();
      if (out_ == DType::f32) registers[result] = args.out<float>(out) + at;
      run_tile(code_, registers.data(), t.count());
      if (out_ != DType::f32)
        bools_from_floats(registers[result], args.out<uint8_t>(out) + at, t.count());
    }
  }

  // A tile of full size, for operands that are filled once.
  Tile widest(Tile t) const {
    t.row = 0;
    t.rows = rows_;
    t.column = 0;
    t.columns = columns_;
    return t;
  }

  Walk walk_;
  std::vector<Instruction> code_;
  int registers_;
  DType out_;
  int64_t rows_ = 1, columns_ = 1, across_ = 1;  // of a tile, and tiles along a row
  int64_t cost_ = 0;
};

}  // namespace

int Expression::add_operand(PointwiseOperand operand) {
  operands_.push_back(std::move(operand));
  return operands() - 1;
}

int Expression::add(Instruction i, std::span<const int> inputs) {
  const auto at = [&](size_t k) { return static_cast<uint8_t>(k < inputs.size() ? inputs[k] : 0); };
  i.a = at(0);
  i.b = at(1);
  i.c = at(2);
  i.to = static_cast<uint8_t>(kMaxOperands + size());
  code_.push_back(i);
  return i.to;
}

namespace {

// Numbers registers anew: operands keep theirs, results take the first that nobody needs any more.
int assign_registers(std::vector<Instruction>& code, int operands, int first_result) {
  std::array<int, 256> last{}, given{};
  for (size_t i = 0; i < code.size(); ++i)
    for (const uint8_t r : {code[i].a, code[i].b, code[i].c}) last[r] = static_cast<int>(i);
  std::vector<int> free;
  int used = operands;
  for (int r = 0; r < operands; ++r) given[static_cast<size_t>(r)] = r;
  for (size_t i = 0; i < code.size(); ++i) {
    Instruction& in = code[i];
    const std::array<uint8_t, 3> read = {in.a, in.b, in.c};
    const uint8_t to = in.to;
    if (i + 1 == code.size() || free.empty()) {  // the result's register becomes the output itself
      given[to] = used++;
    } else {
      given[to] = free.back();
      free.pop_back();
    }
    in.a = static_cast<uint8_t>(given[read[0]]);
    in.b = static_cast<uint8_t>(given[read[1]]);
    in.c = static_cast<uint8_t>(given[read[2]]);
    in.to = static_cast<uint8_t>(given[to]);
    for (size_t k = 0; k < read.size(); ++k) {
      const bool again = std::find(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(k),
                                   read[k]) != read.begin() + static_cast<std::ptrdiff_t>(k);
      if (!again && read[k] >= first_result && last[read[k]] == static_cast<int>(i))
        free.push_back(given[read[k]]);
    }
  }
  return used;
}

}  // namespace

std::unique_ptr<Kernel> Expression::kernel(const PointwiseOperand& out) const {
  std::vector<Instruction> code = code_;
  const int registers = assign_registers(code, operands(), kMaxOperands);
  return std::make_unique<PointwiseKernel>(make_walk(operands_, out.shape), std::move(code),
                                           registers, out.dtype);
}

int64_t Expression::scratch_bytes(int threads) const {
  std::vector<Instruction> code = code_;
  return static_cast<int64_t>(assign_registers(code, operands(), kMaxOperands)) * kTile *
         static_cast<int64_t>(sizeof(float)) * threads;
}

std::vector<MayShare> Expression::may_share(const PointwiseOperand& out,
                                            std::span<const BufferId> reads) const {
  std::vector<MayShare> list;
  for (size_t i = 0; i < operands_.size(); ++i) {
    bool clean = operands_[i].dtype == out.dtype && operands_[i].shape == out.shape;
    // The same bytes under another shape would be read out of step with the writes.
    for (size_t k = 0; k < operands_.size(); ++k)
      clean &= reads[k] != reads[i] || operands_[k].shape == out.shape;
    if (clean) list.push_back({0, static_cast<int32_t>(i)});
  }
  return list;
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_HIGHWAY
