// SPDX-License-Identifier: Apache-2.0
// ONNX's matrix products and convolutions.
#include <algorithm>

#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

// Vectors count as matrices of one row (left) or one column (right), and that axis goes again.
void import_matmul(ImportCtx& c) {
  if (!c.require(2)) return;
  const int a = c.rank(0), b = c.rank(1);
  const Value left = a == 1 ? c.emit(op::unsqueeze, {c.in(0)}, AxesAttrs{{0}}) : c.in(0);
  const Value right = b == 1 ? c.emit(op::unsqueeze, {c.in(1)}, AxesAttrs{{1}}) : c.in(1);
  Value v = c.emit(op::matmul, {left, right}, MatmulAttrs{});
  std::vector<int64_t> extra;
  if (a == 1) extra.push_back(-2);
  if (b == 1) extra.push_back(-1);
  const int rank =
      a < 0 || b < 0 ? -1 : std::max(std::max(a, b), 2) - static_cast<int>(extra.size());
  if (!extra.empty()) v = c.emit(op::squeeze, {v}, AxesAttrs{extra});
  c.set(0, v, {c.dtype(0), rank});
}

void import_gemm(ImportCtx& c) {
  if (!c.require(2)) return;
  c.ignore("broadcast");  // before opset 7: that the bias may have fewer rows
  const GemmAttrs attrs{c.attr("alpha", 1.0), c.attr("beta", 1.0), c.flag("transA"),
                        c.flag("transB")};
  c.set(0, c.emit(op::gemm, {c.in(0), c.in(1), c.in(2)}, attrs), {c.dtype(0), 2});
}

// kernel_shape says what the weight's shape says; where both are known they must agree.
void check_kernel_shape(ImportCtx& c) {
  const std::vector<int64_t> kernel = c.attr_ints("kernel_shape");
  const ValueInfo& w = c.b.graph().value(c.in(1).id());
  if (kernel.empty() || !w.typed) return;
  const std::span<const int64_t> extents = w.type.shape.dims();
  for (size_t i = 0; i < kernel.size(); ++i)
    if (extents.size() != kernel.size() + 2 || (extents[i + 2] >= 0 && extents[i + 2] != kernel[i]))
      return c.fail("'kernel_shape' differs from the shape of the weight, {}",
                    to_string(c.b.graph(), w.type.shape));
}

ConvAttrs conv_attrs(ImportCtx& c) {
  ConvAttrs a;
  a.strides = c.attr_ints("strides");
  a.dilations = c.attr_ints("dilations");
  a.groups = c.attr("group", int64_t{1});
  a.auto_pad =
      c.attr_enum("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}, AutoPad::none);
  read_pads(c, a.pads_begin, a.pads_end);
  check_kernel_shape(c);
  return a;
}

void import_conv(ImportCtx& c) {
  if (c.require(2)) c.set(0, c.emit(op::conv, {c.in(0), c.in(1), c.in(2)}, conv_attrs(c)));
}

void import_conv_transpose(ImportCtx& c) {
  if (!c.require(2)) return;
  const ConvTransposeAttrs attrs{conv_attrs(c), c.attr_ints("output_padding"),
                                 c.attr_ints("output_shape")};
  c.set(0, c.emit(op::conv_transpose, {c.in(0), c.in(1), c.in(2)}, attrs));
}

constexpr ImportRule kImports[] = {
    {"Conv", 1, import_conv},
    {"ConvTranspose", 1, import_conv_transpose},
    {"Gemm", 1, import_gemm},
    {"MatMul", 1, import_matmul},
};

// The last two axes swapped. Einsum can say that of a value whose rank is not known.
std::string swapped(ExportCtx& c, int i) {
  const int rank = c.rank(i);
  if (rank < 2)
    return c.part("Einsum", {c.in(i)}, {{"equation", std::string_view("...ij->...ji")}});
  std::vector<int64_t> perm;
  for (int k = 0; k < rank; ++k) perm.push_back(k < rank - 2 ? k : 2 * rank - 3 - k);
  return c.part("Transpose", {c.in(i)}, {{"perm", std::move(perm)}});
}

void export_matmul(ExportCtx& c) {
  const MatmulAttrs& a = c.attrs<MatmulAttrs>();
  const std::string left = a.trans_a ? swapped(c, 0) : c.in(0);
  c.write("MatMul", {left, a.trans_b ? swapped(c, 1) : c.in(1)});
}

void export_gemm(ExportCtx& c) {
  const GemmAttrs& a = c.attrs<GemmAttrs>();
  c.write("Gemm", c.inputs(),
          {{"alpha", a.alpha},
           {"beta", a.beta},
           {"transA", int64_t{a.trans_a}},
           {"transB", int64_t{a.trans_b}}});
}

std::vector<OutAttr> window_attrs(const ConvAttrs& a) {
  std::vector<OutAttr> attrs = {
      {"strides", a.strides}, {"dilations", a.dilations}, {"group", a.groups}};
  add_pads(attrs, a.auto_pad, a.pads_begin, a.pads_end);
  return attrs;
}

void export_conv(ExportCtx& c) { c.write("Conv", c.inputs(), window_attrs(c.attrs<ConvAttrs>())); }

void export_conv_transpose(ExportCtx& c) {
  const ConvTransposeAttrs& a = c.attrs<ConvTransposeAttrs>();
  std::vector<OutAttr> attrs = window_attrs(a.conv);
  attrs.push_back({"output_padding", a.output_padding});
  attrs.push_back({"output_shape", a.output_shape});
  c.write("ConvTranspose", c.inputs(), std::move(attrs));
}

constexpr ExportRule kExports[] = {
    {&op::conv, "Conv", export_conv},
    {&op::conv_transpose, "ConvTranspose", export_conv_transpose},
    {&op::gemm, "Gemm", export_gemm},
    {&op::matmul, "MatMul", export_matmul},
};

}  // namespace

std::span<const ImportRule> linear_imports() { return kImports; }
std::span<const ExportRule> linear_exports() { return kExports; }

}  // namespace hone::onnx
