// SPDX-License-Identifier: Apache-2.0
// ONNX's DFT and STFT, written with fft; window functions and the mel filter bank, which are
// constants once their sizes are known.
#include "hone/signal_attrs.hpp"

#include <array>
#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

constexpr double kPi = 3.14159265358979323846264338327950;
// No table or transform is longer.
constexpr int64_t kLongest = int64_t{1} << 24;

// A number that decides a shape.
Result<int64_t> need_constant_number(const InferCtx& c, int input, std::string_view name) {
  if (c.shape(input).numel() != 1) return c.error("{} is {}, not one number", name, c.in(input));
  const TensorData* t = c.constant(input);
  if (!t)
    return unsupported("{}: {} decides the output's shape and needs to be known before running",
                       c.who(), name);
  return is_float(t->dtype()) ? static_cast<int64_t>(t->at(0)) : t->int_at(0);
}
double number(const DecomposeCtx& c, int input) {
  const TensorData& t = *c.constant(input);
  return is_float(t.dtype()) ? t.at(0) : static_cast<double>(t.int_at(0));
}

// ---- dft(x, length?, axis?)

struct Transform {
  int axis;
  int64_t extent;  // of the input
  int64_t length;  // of the transform
  int64_t kept;    // of the output
  bool from_half;  // the input is the first half of a transform of real numbers
  bool to_real;    // the output is real
};

Status check_transform(const InferCtx& c, int axis, int64_t length) {
  const Shape& s = c.shape(0);
  if (axis < 0 || axis >= s.rank() - 1)
    return c.error("axis {} does not exist before the last axis of {}", axis, s);
  const int64_t parts = s[s.rank() - 1];
  if (parts != 1 && parts != 2)
    return c.error("the last axis of {} is neither 1 (real) nor 2 (complex)", s);
  if (length < 1 || length > kLongest) return c.error("the length of the transform is {}", length);
  return {};
}

// A one-sided inverse takes the first half of a spectrum and gives real numbers.
Transform transform_of(const DftAttrs& a, const Shape& s, int64_t axis_given, int64_t length) {
  Transform t;
  const int rank = s.rank();
  t.axis = static_cast<int>(axis_given < 0 ? axis_given + rank : axis_given);
  t.extent = t.axis >= 0 && t.axis < rank ? s[t.axis] : 0;
  t.from_half = a.inverse && a.onesided;
  t.length = length > 0 ? length : t.from_half ? 2 * (t.extent - 1) : t.extent;
  t.to_real = t.from_half;
  t.kept = a.onesided && !a.inverse ? t.length / 2 + 1 : t.length;
  return t;
}

Status infer_dft(InferCtx& c) {
  const DftAttrs& a = c.attrs<DftAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank_at_least(c, 0, 2));
  int64_t length = 0, axis = a.axis;
  if (c.has(1)) {
    HONE_ASSIGN(length, need_constant_number(c, 1, "the length"));
    if (length < 1) return c.error("the length of the transform is {}", length);
  }
  if (c.has(2)) {
    HONE_ASSIGN(axis, need_constant_number(c, 2, "the axis"));
  }
  const Transform t = transform_of(a, c.shape(0), axis, length);
  HONE_TRY(check_transform(c, t.axis, t.length));
  Shape out = c.shape(0);
  if (a.onesided && !a.inverse && out[out.rank() - 1] != 1)
    return c.error("a one-sided transform takes real numbers, got {}", c.in(0));
  if (t.from_half && out[out.rank() - 1] != 2)
    return c.error("a one-sided inverse takes complex numbers, got {}", c.in(0));
  out[t.axis] = t.kept;
  out[out.rank() - 1] = t.to_real ? 1 : 2;
  c.out(c.dtype(0), out);
  return {};
}

// Cut or padded with zeros to `extent` along the axis.
Value resized(Value x, int axis, int64_t extent) {
  const int64_t now = x.shape()[axis];
  if (now >= extent) return now == extent ? x : ops::slice(x, axis, 0, extent);
  Shape rest = x.shape();
  rest[axis] = extent - now;
  const Value parts[] = {x, ops::fill(x.builder(), {x.dtype(), rest}, 0)};
  return ops::concat(parts, axis);
}

// Real numbers get an imaginary part.
Value as_complex(Value x) {
  const int last = x.shape().rank() - 1;
  if (x.shape()[last] == 2) return x;
  const Value parts[] = {x, ops::zeros_like(x)};
  return ops::concat(parts, last);
}

// The second half of a spectrum of real numbers: the conjugate of the first, backwards.
Value mirrored(Value half, int axis, int64_t length) {
  std::vector<int64_t> at;
  for (int64_t k = length / 2 + 1; k < length; ++k) at.push_back(length - k);
  if (at.empty()) return half;
  const Value rest = ops::gather(half, half.builder().ints(at), axis);
  const Value signs[] = {half.builder().scalar(1, half.dtype()),
                         half.builder().scalar(-1, half.dtype())};
  const Value sign =
      ops::concat(std::array{ops::reshape(signs[0], {1}), ops::reshape(signs[1], {1})}, 0);
  const Value parts[] = {half, rest * sign};
  return ops::concat(parts, axis);
}

void decompose_dft(DecomposeCtx& c) {
  const DftAttrs& a = c.attrs<DftAttrs>();
  const int64_t length = c.has(1) ? static_cast<int64_t>(number(c, 1)) : 0;
  const int64_t axis = c.has(2) ? static_cast<int64_t>(number(c, 2)) : a.axis;
  const Transform t = transform_of(a, c.shape(0), axis, length);
  Value x = as_complex(c.in(0));
  x = t.from_half ? mirrored(resized(x, t.axis, t.length / 2 + 1), t.axis, t.length)
                  : resized(x, t.axis, t.length);
  Value y = c.b.emit(op::fft, {x}, FftAttrs{t.axis, a.inverse});
  if (a.inverse) y = y * (1.0 / static_cast<double>(t.length));
  y = resized(y, t.axis, t.kept);
  if (t.to_real && y.valid()) y = ops::slice(y, -1, 0, 1);
  c.set(0, y);
}

// ---- stft(signal, step, window?, length?)

struct Frames {
  int64_t batch, samples, parts, step, length;
  int64_t count() const { return (samples - length) / step + 1; }
  int64_t bins(bool onesided) const { return onesided ? length / 2 + 1 : length; }
};

Status infer_stft(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  const Shape& s = c.shape(0);
  if (s.rank() != 2 && s.rank() != 3)
    return c.error("the signal is {}, expected (batch, samples, 1 or 2)", c.in(0));
  Frames f{s[0], s[1], s.rank() == 3 ? s[2] : 1, 0, 0};
  if (f.parts != 1 && f.parts != 2)
    return c.error("the last axis of {} is neither 1 (real) nor 2 (complex)", s);
  HONE_ASSIGN(f.step, need_constant_number(c, 1, "the step"));
  if (c.has(2)) {
    HONE_TRY(need_same_dtype(c, 0, 2));
    HONE_TRY(need_rank(c, 2, 1));
    f.length = c.shape(2)[0];
  }
  if (c.has(3)) {
    HONE_ASSIGN(const int64_t length, need_constant_number(c, 3, "the frame length"));
    if (c.has(2) && length != f.length)
      return c.error("the frame length is {}, the window's {}", length, f.length);
    f.length = length;
  }
  if (f.step < 1 || f.length < 1 || f.length > f.samples)
    return c.error("frames of {} samples every {} do not fit a signal of {}", f.length, f.step,
                   f.samples);
  if (f.count() > 16 * kLongest / f.length)
    return c.error("{} frames of {} samples are too many", f.count(), f.length);
  if (f.parts == 2 && c.attrs<StftAttrs>().onesided)
    return c.error("a one-sided transform takes real numbers, got {}", c.in(0));
  c.out(c.dtype(0), {f.batch, f.count(), f.bins(c.attrs<StftAttrs>().onesided), 2});
  return {};
}

void decompose_stft(DecomposeCtx& c) {
  const Shape s = c.shape(0);
  Frames f{s[0], s[1], s.rank() == 3 ? s[2] : 1, static_cast<int64_t>(number(c, 1)),
           c.has(2) ? c.shape(2)[0] : static_cast<int64_t>(number(c, 3))};
  std::vector<int64_t> at;
  for (int64_t i = 0; i < f.count(); ++i)
    for (int64_t k = 0; k < f.length; ++k) at.push_back(i * f.step + k);
  Value x = ops::reshape(c.in(0), {f.batch, f.samples, f.parts});
  x = ops::reshape(ops::gather(x, c.b.ints(at), 1), {f.batch, f.count(), f.length, f.parts});
  if (c.has(2)) x = x * ops::reshape(c.in(2), {f.length, 1});
  const Value y = c.b.emit(op::fft, {as_complex(x)}, FftAttrs{2, false});
  c.set(0, resized(y, 2, f.bins(c.attrs<StftAttrs>().onesided)));
}

// ---- tables

void set_table(DecomposeCtx& c, const Shape& shape, DType dtype, std::span<const double> values) {
  auto wide = TensorData::vector_of(values);
  auto table = wide.ok() ? wide->reshaped(shape) : std::move(wide);
  auto narrow = table.ok() ? cast(*table, dtype) : std::move(table);
  if (!narrow.ok()) return c.b.fail(narrow.status());
  c.set(0, c.b.constant(std::move(*narrow)));
}

Status infer_window(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_ASSIGN(const int64_t size, need_constant_number(c, 0, "the size"));
  if (size < 0 || size > kLongest) return c.error("the size is {}", size);
  const DType t = c.attrs<SignalWindowAttrs>().dtype;
  if (t == DType::bool_) return c.error("a window cannot be of bool");
  c.out(t, {size});
  return {};
}

// A sum of cosines: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
void decompose_window(DecomposeCtx& c) {
  const SignalWindowAttrs& a = c.attrs<SignalWindowAttrs>();
  const int64_t size = static_cast<int64_t>(number(c, 0));
  const double period = static_cast<double>(a.periodic ? size : size - 1);
  constexpr double kTerms[][3] = {{0.5, 0.5, 0}, {25.0 / 46, 1 - 25.0 / 46, 0}, {0.42, 0.5, 0.08}};
  const double* term = kTerms[static_cast<size_t>(a.kind)];
  std::vector<double> w;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * kPi * static_cast<double>(i) / period;
    w.push_back(size == 1 && !a.periodic
                    ? 1
                    : term[0] - term[1] * std::cos(angle) + term[2] * std::cos(2 * angle));
  }
  set_table(c, {size}, a.dtype, w);
}

// mel_weight_matrix(bins, dft_length, sample_rate, low_hz, high_hz)
Status infer_mel(InferCtx& c) {
  int64_t v[3];
  constexpr std::string_view kNames[] = {"the number of bins", "the length", "the sample rate"};
  for (int i = 0; i < 3; ++i) {
    HONE_ASSIGN(v[i], need_constant_number(c, i, kNames[i]));
    if (v[i] < 1 || v[i] > kLongest) return c.error("{} is {}", kNames[i], v[i]);
  }
  double edge[2];
  for (int i = 0; i < 2; ++i) {
    HONE_ASSIGN(const int64_t whole, need_constant_number(c, 3 + i, "an edge"));
    edge[i] = static_cast<double>(whole);
  }
  if (edge[0] < 0 || edge[1] < edge[0] || 2 * edge[1] > static_cast<double>(v[2]))
    return c.error("the edges {} and {} Hz do not lie below half of {} Hz", edge[0], edge[1], v[2]);
  if (v[0] > kLongest / (v[1] / 2 + 1)) return c.error("{} bins of {} are too many", v[0], v[1]);
  if (c.attrs<OutDTypeAttrs>().dtype == DType::bool_)
    return c.error("a filter bank cannot be of bool");
  c.out(c.attrs<OutDTypeAttrs>().dtype, {v[1] / 2 + 1, v[0]});
  return {};
}

// Triangles that overlap by half, equally spaced on the mel scale (ONNX's formulas).
void decompose_mel(DecomposeCtx& c) {
  const int64_t bins = static_cast<int64_t>(number(c, 0)),
                length = static_cast<int64_t>(number(c, 1));
  const auto mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  const double low = mel(number(c, 3)), high = mel(number(c, 4));
  const double step = (high - low) / static_cast<double>(bins + 2);
  std::vector<int64_t> edge;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    edge.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hz / number(c, 2))));
  }
  const int64_t rows = length / 2 + 1;
  std::vector<double> w(static_cast<size_t>(rows * bins), 0.0);
  const auto put = [&](int64_t row, int64_t bin, double v) {
    if (row >= 0 && row < rows) w[static_cast<size_t>(row * bins + bin)] = v;
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t lower = edge[static_cast<size_t>(i)], centre = edge[static_cast<size_t>(i + 1)],
                  upper = edge[static_cast<size_t>(i + 2)];
    const double rise = static_cast<double>(centre - lower),
                 fall = static_cast<double>(upper - centre);
    if (centre == lower) put(centre, i, 1);
    for (int64_t j = lower; j <= centre && centre > lower; ++j)
      put(j, i, static_cast<double>(j - lower) / rise);
    for (int64_t j = centre; j < upper; ++j) put(j, i, static_cast<double>(upper - j) / fall);
  }
  set_table(c, {rows, bins}, c.attrs<OutDTypeAttrs>().dtype, w);
}

}  // namespace

// dft(x, length?, axis?): ONNX DFT. x (.., N, .., 1 or 2) real or complex, cut or padded to the
// length.   -> (.., length or length / 2 + 1, .., 2); a one-sided inverse gives (.., length, .., 1)
const OpDef op::dft = {
    .name = "dft",
    .attrs = &kAttrSchema<DftAttrs>,
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = infer_dft,
    .decompose = decompose_dft,
    .diff = Diff::by_decomposition,
};

// stft(signal, step, window?, length?): ONNX STFT, transforms of overlapping frames.   (B, N, 1 or
// 2) -> (B, frames, bins, 2)
const OpDef op::stft = {
    .name = "stft",
    .attrs = &kAttrSchema<StftAttrs>,
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = infer_stft,
    .decompose = decompose_stft,
    .diff = Diff::by_decomposition,
};

// signal_window(size): ONNX HannWindow, HammingWindow, BlackmanWindow.   () -> (size)
const OpDef op::signal_window = {
    .name = "signal_window",
    .attrs = &kAttrSchema<SignalWindowAttrs>,
    .infer = infer_window,
    .decompose = decompose_window,
    .diff = Diff::zero,
};

// mel_weight_matrix(bins, length, sample_rate, low_hz, high_hz): ONNX MelWeightMatrix, which turns
// a spectrum into mel bins.   -> (length / 2 + 1, bins)
const OpDef op::mel_weight_matrix = {
    .name = "mel_weight_matrix",
    .attrs = &kAttrSchema<OutDTypeAttrs>,
    .min_inputs = 5,
    .max_inputs = 5,
    .infer = infer_mel,
    .decompose = decompose_mel,
    .diff = Diff::zero,
};

}  // namespace hone
