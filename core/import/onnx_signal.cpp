// SPDX-License-Identifier: Apache-2.0
// ONNX's Fourier transforms and tables for signal processing.
#include "core/import/onnx_families.hpp"
#include "hone/signal_attrs.hpp"

namespace hone::onnx {

namespace {

// Since opset 20 the axis is an input, before it an attribute that counted from 1.
void import_dft(ImportCtx& c) {
  if (!c.require(1)) return;
  const bool axis_is_input = c.opset >= 20;
  DftAttrs a;
  a.axis = axis_is_input ? -2 : c.attr("axis", int64_t{1});
  a.inverse = c.flag("inverse");
  a.onesided = c.flag("onesided");
  // Before opset 20 a one-sided inverse only cut the result.
  if (!axis_is_input && a.inverse && a.onesided)
    return c.unsupported("with inverse and onesided both");
  c.set(0, c.b.emit(op::dft, c.inputs(), a));
}

void import_stft(ImportCtx& c) {
  if (!c.require(2)) return;
  c.set(0, c.b.emit(op::stft, c.inputs(), StftAttrs{c.flag("onesided", true)}), {c.dtype(0), 4});
}

DType table_dtype(ImportCtx& c) {
  const int64_t t = c.attr("output_datatype", int64_t{1});
  const auto dtype = dtype_of(static_cast<ElemType>(t));
  if (!dtype) c.unsupported("with output_datatype={}", t);
  return dtype.value_or(DType::f32);
}

template <WindowKind kind>
void import_window(ImportCtx& c) {
  if (!c.require(1)) return;
  const SignalWindowAttrs a{kind, c.flag("periodic", true), table_dtype(c)};
  c.set(0, c.emit(op::signal_window, {c.in(0)}, a), {a.dtype, 1});
}

void import_mel(ImportCtx& c) {
  if (!c.require(5)) return;
  const OutDTypeAttrs a{table_dtype(c)};
  c.set(0, c.b.emit(op::mel_weight_matrix, c.inputs(), a), {a.dtype, 2});
}

constexpr ImportRule kImports[] = {
    {"BlackmanWindow", 17, import_window<WindowKind::blackman>},
    {"DFT", 17, import_dft},
    {"HammingWindow", 17, import_window<WindowKind::hamming>},
    {"HannWindow", 17, import_window<WindowKind::hann>},
    {"MelWeightMatrix", 17, import_mel},
    {"STFT", 17, import_stft},
};

void export_dft(ExportCtx& c) {
  const DftAttrs& a = c.attrs<DftAttrs>();
  c.need(20);
  const std::string axis = c.has(2) ? c.in(2) : c.number(static_cast<double>(a.axis), DType::i64);
  c.write("DFT", {c.in(0), c.in(1), axis},
          {{"inverse", int64_t{a.inverse}}, {"onesided", int64_t{a.onesided}}});
}

// DFT divides by the length on the way back, fft does not.
void export_fft(ExportCtx& c) {
  const FftAttrs& a = c.attrs<FftAttrs>();
  c.need(20);
  const std::vector<std::string> in = {c.in(0), "",
                                       c.number(static_cast<double>(a.axis), DType::i64)};
  if (!a.inverse) return c.write("DFT", in);
  const std::string y = c.part("DFT", in, {{"inverse", int64_t{1}}});
  const std::string length = c.part(
      "Gather", {c.part("Shape", {c.in(0)}), c.number(static_cast<double>(a.axis), DType::i64)});
  const std::string scale =
      c.part("Cast", {length}, {{"to", static_cast<int64_t>(elem_type_of(c.dtype(0)))}});
  c.write("Mul", {y, scale});
}

void export_stft(ExportCtx& c) {
  c.write("STFT", c.inputs(), {{"onesided", int64_t{c.attrs<StftAttrs>().onesided}}});
}

void export_window(ExportCtx& c) {
  const SignalWindowAttrs& a = c.attrs<SignalWindowAttrs>();
  constexpr std::string_view kNames[] = {"HannWindow", "HammingWindow", "BlackmanWindow"};
  c.write(kNames[static_cast<size_t>(a.kind)], c.inputs(),
          {{"periodic", int64_t{a.periodic}},
           {"output_datatype", static_cast<int64_t>(elem_type_of(a.dtype))}});
}

void export_mel(ExportCtx& c) {
  c.write(
      "MelWeightMatrix", c.inputs(),
      {{"output_datatype", static_cast<int64_t>(elem_type_of(c.attrs<OutDTypeAttrs>().dtype))}});
}

constexpr ExportRule kExports[] = {
    {&op::dft, "DFT", export_dft},
    {&op::fft, "", export_fft},
    {&op::mel_weight_matrix, "MelWeightMatrix", export_mel, OutType::attribute},
    {&op::signal_window, "", export_window, OutType::attribute},
    {&op::stft, "STFT", export_stft},
};

}  // namespace

std::span<const ImportRule> signal_imports() { return kImports; }
std::span<const ExportRule> signal_exports() { return kExports; }

}  // namespace hone::onnx
