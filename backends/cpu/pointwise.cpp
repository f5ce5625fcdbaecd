// SPDX-License-Identifier: Apache-2.0
// Element-wise expressions: how tiles walk over the operands, and which registers they use.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/pointwise.hpp"

#include <algorithm>
#include <array>

#include "hwy/cache_control.h"

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

// Asks for memory that will be needed soon. A tile is about a page, within which the processor's
// own prefetching hardly gets going.
void prefetch(const float* p, int64_t n) {
  constexpr int64_t kLine = 16;  // floats
  for (int64_t i = 0; i < n; i += kLine) hwy::Prefetch(p + i);
}

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(Evaluator evaluator, DType out) : evaluator_(std::move(evaluator)), out_(out) {}

  Status run(const StepArgs& args) override {
    const int64_t each = evaluator_.tile_elements(), total = evaluator_.elements();
    constexpr int64_t kWork = 65536;  // for one thread, in additions
    const int64_t grain = std::max<int64_t>(1, kWork / (each * evaluator_.cost()));
    args.pool.parallel_for((total + each - 1) / each, grain,
                           [&](int64_t begin, int64_t end, int worker) {
                             const int64_t first = begin * each;
                             evaluate(args, first, std::min(end * each, total) - first, worker);
                           });
    return {};
  }

 private:
  void evaluate(const StepArgs& args, int64_t first, int64_t count, int worker) const {
    float* const own =
        reinterpret_cast<float*>(args.scratch) + worker * evaluator_.scratch_floats();
    Evaluator::Run run(evaluator_, args.operands.data(), own);
    const size_t out = static_cast<size_t>(evaluator_.operands());
    if (out_ == DType::f32)
      run.evaluate(first, count, args.out<float>(out) + first);
    else
      run.evaluate_bools(first, count, args.out<uint8_t>(out) + first);
  }

  Evaluator evaluator_;
  DType out_;
};

}  // namespace

// ---- evaluation

Evaluator::Evaluator(Walk walk, std::vector<Instruction> code, int registers)
    : walk_(std::move(walk)), code_(std::move(code)), registers_(registers) {
  for (const Instruction& i : code_) cost_ += weight(i.fn);
  columns_ = std::min(walk_.inner, kTile);
  if (columns_ == walk_.inner) rows_ = std::clamp<int64_t>(kTile / walk_.inner, 1, walk_.rows);
}

Evaluator::Run::Run(const Evaluator& evaluator, void* const* operands, float* scratch)
    : e_(evaluator), operands_(operands), scratch_(scratch) {
  for (int64_t r = 0; r < e_.registers_; ++r)
    registers_[static_cast<size_t>(r)] = scratch + r * kRegister;
  const Tile widest{0, e_.rows_, 0, e_.columns_};
  for (size_t k = 0; k < e_.walk_.operands.size(); ++k)
    if (kept(e_.walk_.operands[k])) fill(k, widest, registers_[k]);
}

// Whether the operand's register, once filled, serves every tile.
bool Evaluator::Run::kept(const Walk::Operand& o) const {
  return o.scalar || (o.steady && e_.columns_ == e_.walk_.inner);
}

// Fills a register with a tile of an operand.
void Evaluator::Run::fill(size_t k, const Tile& t, float* to) const {
  const Walk& w = e_.walk_;
  const Walk::Operand& o = w.operands[k];
  const void* base = operands_[k];
  if (o.whole) return gather(base, o.dtype, t.row * w.inner + t.column, 1, to, t.count());
  if (o.scalar) return gather(base, o.dtype, 0, 0, to, t.count());
  const int outer = w.extents.rank();
  std::array<int64_t, kMaxRank> index{};
  int64_t at = t.column * o.inner, rest = t.row;
  for (int i = outer - 1; i >= 0; --i) {
    const size_t d = static_cast<size_t>(i);
    index[d] = rest % w.extents[i];
    rest /= w.extents[i];
    at += index[d] * o.outer[d];
  }
  for (int64_t r = 0; r < t.rows; ++r, to += t.columns) {
    gather(base, o.dtype, at, o.inner, to, t.columns);
    for (int i = outer - 1; i >= 0; --i) {  // the next row
      const size_t d = static_cast<size_t>(i);
      at += o.outer[d];
      if (++index[d] < w.extents[i]) break;
      at -= index[d] * o.outer[d];
      index[d] = 0;
    }
  }
}

void Evaluator::Run::load(const Tile& t) {
  const int64_t at = t.row * e_.walk_.inner + t.column;
  for (size_t k = 0; k < e_.walk_.operands.size(); ++k) {
    const Walk::Operand& o = e_.walk_.operands[k];
    float* const own = scratch_ + static_cast<int64_t>(k) * kRegister;
    if (o.whole && o.dtype == DType::f32) {
      registers_[k] = static_cast<float*>(operands_[k]) + at;
      prefetch(registers_[k] + t.count(), t.count());
    } else if (!kept(o)) {
      fill(k, t, own);
    } else {
      registers_[k] = o.scalar ? own : own + t.column;
    }
  }
}

template <class F>
void Evaluator::Run::for_tiles(int64_t first, int64_t count, F f) {
  const int64_t inner = e_.walk_.inner, end = first + count;
  for (int64_t at = first; at < end;) {
    Tile t{at / inner, 1, at % inner, 0};
    if (t.column == 0 && e_.columns_ == inner && end - at >= inner) {
      t.rows = std::min(e_.rows_, (end - at) / inner);
      t.columns = inner;
    } else {
      t.columns = std::min({e_.columns_, inner - t.column, end - at});
    }
    load(t);
    f(at - first, t.count());
    at += t.count();
  }
}

void Evaluator::Run::evaluate(int64_t first, int64_t count, float* to) {
  const size_t result = e_.code_.back().to;
  for_tiles(first, count, [&](int64_t offset, int64_t n) {
    registers_[result] = to + offset;
    prefetch(to + offset + n, n);
    run_tile(e_.code_, registers_.data(), n);
  });
}

void Evaluator::Run::evaluate_bools(int64_t first, int64_t count, uint8_t* to) {
  const size_t result = e_.code_.back().to;
  for_tiles(first, count, [&](int64_t offset, int64_t n) {
    run_tile(e_.code_, registers_.data(), n);
    bools_from_floats(registers_[result], to + offset, n);
  });
}

// ---- construction

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

Evaluator Expression::evaluator(const Shape& out) const {
  std::vector<Instruction> code = code_;
  const int registers = assign_registers(code, operands(), kMaxOperands);
  return {make_walk(operands_, out), std::move(code), registers};
}

std::unique_ptr<Kernel> pointwise_kernel(Evaluator evaluator, DType out) {
  return std::make_unique<PointwiseKernel>(std::move(evaluator), out);
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
