// SPDX-License-Identifier: Apache-2.0
// Which constants of a TensorFlow Lite file are learned. Like ONNX, the format does not say.
#include <algorithm>

#include "core/import/tflite_ctx.hpp"
#include "hone/glob.hpp"

namespace hone::tflite {

namespace {

struct Slot {
  Builtin code;
  size_t first, last;  // inputs [first, last]
};

// Where learned tensors stand.
constexpr Slot kWeightSlots[] = {
    {Builtin::BATCH_MATMUL, 0, 1},
    {Builtin::CONV_2D, 1, 2},
    {Builtin::DEPTHWISE_CONV_2D, 1, 2},
    {Builtin::EMBEDDING_LOOKUP, 1, 1},
    {Builtin::FULLY_CONNECTED, 1, 2},
    {Builtin::GATHER, 0, 0},
    {Builtin::PRELU, 1, 1},
    {Builtin::TRANSPOSE_CONV, 1, 1},
    {Builtin::TRANSPOSE_CONV, 3, 3},
};

// Where biases stand, which are int32 or int64 in a quantized model.
constexpr Slot kBiasSlots[] = {
    {Builtin::CONV_2D, 2, 2},
    {Builtin::DEPTHWISE_CONV_2D, 2, 2},
    {Builtin::FULLY_CONNECTED, 2, 2},
    {Builtin::TRANSPOSE_CONV, 3, 3},
};

// Where numbers stand that steer an operator.
constexpr Slot kSettingSlots[] = {
    {Builtin::FILL, 1, 1},  {Builtin::ONE_HOT, 1, 3},    {Builtin::PADV2, 2, 2},
    {Builtin::RANGE, 0, 2}, {Builtin::MIRROR_PAD, 1, 1},
};

bool stands_in(std::span<const Slot> slots, Builtin code, size_t input) {
  return std::any_of(slots.begin(), slots.end(), [&](const Slot& s) {
    return s.code == code && input >= s.first && input <= s.last;
  });
}

// Two axes or more, nothing but 0 and 1, or 0 and one value of -1000 or less.
bool is_mask(const TensorData& t) {
  if (t.shape().rank() < 2 || t.numel() < 2) return false;
  double low = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double v = t.at(i);
    if (v == 0 || (v == 1 && low == 0)) continue;
    if (v > -1000 || (low != 0 && v != low)) return false;
    low = v;
  }
  return true;
}

// A float that stands nowhere in particular: a number or a mask, or what is subtracted from the
// inputs or divides them before anything learned touches them (mean and deviation of the data).
Weight other_float(const TensorData& t, Builtin code, size_t input, bool learned_before) {
  if (t.numel() <= 1 || is_mask(t)) return Weight::constant;
  const bool normalises = (code == Builtin::SUB || code == Builtin::DIV) && input == 1;
  return normalises && !learned_before ? Weight::frozen : Weight::parameter;
}

}  // namespace

std::vector<Weight> classify_weights(ImportState& state, const OnnxImportOptions& options) {
  File& file = state.file;
  std::vector<Weight> kinds(state.source.size(), Weight::constant);
  std::vector<bool> learned(kinds.size()), looked_at(kinds.size()), stored(kinds.size());
  for (int i = 0; i < file.operators(); ++i) {
    const schema::Operator& o = file.op(i);
    const std::span<const int32_t> in = File::list(o.inputs()), out = File::list(o.outputs());
    const Builtin code = file.code(o);
    bool before = false;
    for (const int32_t t : in) before |= t >= 0 && learned[static_cast<size_t>(t)];
    for (size_t k = 0; k < in.size(); ++k) {
      const size_t t = static_cast<size_t>(in[k]);
      const bool is_setting = stands_in(kSettingSlots, code, k);
      if (in[k] < 0 || state.source[t] < 0 || is_setting || code == Builtin::DEQUANTIZE) continue;
      const auto dtype = file.dtype(in[k]);
      stored[t] = stored[t] || state.quantization(in[k]) ||
                  ((dtype == DType::i32 || dtype == DType::i64) && stands_in(kBiasSlots, code, k));
      if (stored[t] || !dtype || !is_float(*dtype)) continue;
      if (stands_in(kWeightSlots, code, k)) {
        kinds[t] = Weight::parameter;
      } else if (kinds[t] == Weight::constant && !looked_at[t]) {
        looked_at[t] = true;
        const auto data = file.data(state.source[t]);
        // What fails here is told when the tensor is imported.
        if (data.ok() && file.spend(static_cast<uint64_t>(data->bytes())).ok())
          kinds[t] = other_float(*data, code, k, before);
      }
    }
    for (const int32_t t : in)
      before |= t >= 0 && kinds[static_cast<size_t>(t)] == Weight::parameter;
    for (const int32_t t : out) learned[static_cast<size_t>(t)] = before;
  }
  for (int t = 0; t < file.tensors(); ++t) {
    const auto dtype = file.dtype(t);
    const bool is_real = stored[static_cast<size_t>(t)] || (dtype && is_float(*dtype));
    if (state.source[static_cast<size_t>(t)] < 0 || !is_real) continue;
    if (matches(options.constants, file.name(t))) kinds[static_cast<size_t>(t)] = Weight::constant;
    if (matches(options.parameters, file.name(t)))
      kinds[static_cast<size_t>(t)] = Weight::parameter;
  }
  return kinds;
}

}  // namespace hone::tflite
