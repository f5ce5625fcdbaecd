// SPDX-License-Identifier: Apache-2.0
// ONNX's operators of vision models beside convolution and plain pooling, and Einsum and Det.
#include "core/import/evaluate.hpp"
#include "core/import/onnx_families.hpp"
#include "hone/vision_attrs.hpp"

namespace hone::onnx {

namespace {

void import_lp_pool(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::lp_pool, {c.in(0)}, LpPoolAttrs{c.attr("p", int64_t{2}), read_pool(c)}));
}

void import_global_lp_pool(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::global_lp_pool, {c.in(0)}, NormOrderAttrs{c.attr("p", int64_t{2})}));
}

void import_lrn(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::lrn, {c.in(0)},
                  LrnAttrs{c.attr("size", int64_t{1}), c.attr("alpha", 1e-4), c.attr("beta", 0.75),
                           c.attr("bias", 1.0)}));
}

void import_lp_norm(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::lp_norm, {c.in(0)},
                  LpNormAttrs{c.attr("axis", int64_t{-1}), c.attr("p", int64_t{2})}));
}

void import_mean_variance(ImportCtx& c) {
  if (!c.require(1)) return;
  AxesAttrs a{c.attr_ints("axes")};
  if (!c.has_attr("axes")) a.axes = {0, 2, 3};
  c.set(0, c.emit(op::mean_variance_norm, {c.in(0)}, a));
}

void import_max_unpool(ImportCtx& c) {
  if (!c.require(2)) return;
  MaxUnpoolAttrs a;
  a.kernel = c.attr_ints("kernel_shape");
  a.strides = c.attr_ints("strides");
  read_pads(c, a.pads_begin, a.pads_end);
  c.set(0, c.b.emit(op::max_unpool, c.inputs(), a));
}

void import_col2im(ImportCtx& c) {
  if (!c.require(3)) return;
  Col2ImAttrs a;
  a.strides = c.attr_ints("strides");
  a.dilations = c.attr_ints("dilations");
  read_pads(c, a.pads_begin, a.pads_end);
  const auto image = c.ints(1), block = c.ints(2);
  const Known known{c.dtype(0), image ? static_cast<int>(image->size()) + 2 : -1};
  if (!image || !block) return c.set(0, c.b.emit(op::col2im_dyn, c.inputs(), a), known);
  a.image = *image;
  a.block = *block;
  c.set(0, c.emit(op::col2im, {c.in(0)}, a), known);
}

void import_det(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::det, {c.in(0)}), {c.dtype(0), c.rank(0) < 0 ? -1 : c.rank(0) - 2});
}

void import_einsum(ImportCtx& c) {
  if (!c.require(1)) return;
  const EinsumAttrs a{std::string(c.attr("equation", std::string_view()))};
  c.set(0, c.b.emit(op::einsum, c.inputs(), a), {c.dtype(0), -1});
}

// Opset 20 took volumes in and named the modes anew.
void import_grid_sample(ImportCtx& c) {
  if (!c.require(2)) return;
  GridSampleAttrs a;
  a.mode = c.opset >= 20
               ? c.attr_enum("mode", {"linear", "nearest", "cubic"}, SampleMode::linear)
               : c.attr_enum("mode", {"bilinear", "nearest", "bicubic"}, SampleMode::linear);
  a.padding = c.attr_enum("padding_mode", {"zeros", "border", "reflection"}, SamplePadding::zeros);
  a.align_corners = c.flag("align_corners");
  c.set(0, c.emit(op::grid_sample, {c.in(0), c.in(1)}, a));
}

void import_affine_grid(ImportCtx& c) {
  if (!c.require(2)) return;
  const auto size = c.ints(1);
  c.set(0, c.emit(op::affine_grid, {c.in(0), c.in(1)}, AffineGridAttrs{c.flag("align_corners")}),
        {c.dtype(0), size ? static_cast<int>(size->size()) : -1});
}

// Until opset 16 there was no shift by half a pixel.
void import_roi_align(ImportCtx& c) {
  if (!c.require(3)) return;
  RoiAlignAttrs a;
  a.mode = c.attr_enum("mode", {"avg", "max"}, RoiMode::avg);
  a.height = c.attr("output_height", int64_t{1});
  a.width = c.attr("output_width", int64_t{1});
  a.sampling_ratio = c.attr("sampling_ratio", int64_t{0});
  a.scale = c.attr("spatial_scale", 1.0);
  a.half_pixel = c.opset >= 16 && c.attr("coordinate_transformation_mode",
                                         std::string_view("half_pixel")) == "half_pixel";
  c.set(0, c.emit(op::roi_align, {c.in(0), c.in(1), c.in(2)}, a), {c.dtype(0), 4});
}

void import_deform_conv(ImportCtx& c) {
  if (!c.require(3)) return;
  DeformConvAttrs a;
  c.ignore("kernel_shape");  // stands in the weight
  a.conv.strides = c.attr_ints("strides");
  a.conv.dilations = c.attr_ints("dilations");
  a.conv.groups = c.attr("group", int64_t{1});
  read_pads(c, a.conv.pads_begin, a.conv.pads_end);
  a.offset_groups = c.attr("offset_group", int64_t{1});
  c.set(0, c.b.emit(op::deform_conv, c.inputs(), a));
}

constexpr ImportRule kImports[] = {
    {"AffineGrid", 20, import_affine_grid}, {"Col2Im", 18, import_col2im},
    {"DeformConv", 19, import_deform_conv}, {"Det", 11, import_det},
    {"Einsum", 12, import_einsum},          {"GlobalLpPool", 2, import_global_lp_pool},
    {"GridSample", 16, import_grid_sample}, {"LRN", 1, import_lrn},
    {"LpNormalization", 1, import_lp_norm}, {"LpPool", 2, import_lp_pool},
    {"MaxUnpool", 9, import_max_unpool},    {"MeanVarianceNormalization", 9, import_mean_variance},
    {"RoiAlign", 10, import_roi_align},
};

// ---- the way back

std::vector<OutAttr> window_attrs(const PoolAttrs& a) {
  std::vector<OutAttr> attrs = {{"kernel_shape", a.kernel}, {"strides", a.strides}};
  add_pads(attrs, a.auto_pad, a.pads_begin, a.pads_end);
  return attrs;
}

void export_lp_pool(ExportCtx& c) {
  const LpPoolAttrs& a = c.attrs<LpPoolAttrs>();
  std::vector<OutAttr> attrs = window_attrs(a.pool);
  attrs.push_back({"p", a.p});
  if (!a.pool.dilations.empty() || a.pool.ceil_mode) {
    c.need(18);
    attrs.push_back({"dilations", a.pool.dilations});
    attrs.push_back({"ceil_mode", int64_t{a.pool.ceil_mode}});
  }
  c.write("LpPool", c.inputs(), std::move(attrs));
}

void export_global_lp_pool(ExportCtx& c) {
  c.write("GlobalLpPool", c.inputs(), {{"p", c.attrs<NormOrderAttrs>().p}});
}

void export_lrn(ExportCtx& c) {
  const LrnAttrs& a = c.attrs<LrnAttrs>();
  c.write("LRN", c.inputs(),
          {{"size", a.size}, {"alpha", a.alpha}, {"beta", a.beta}, {"bias", a.bias}});
}

void export_lp_norm(ExportCtx& c) {
  const LpNormAttrs& a = c.attrs<LpNormAttrs>();
  c.write("LpNormalization", c.inputs(), {{"axis", a.axis}, {"p", a.p}});
}

void export_mean_variance(ExportCtx& c) {
  if (c.attrs<AxesAttrs>().axes.empty()) return c.unsupported("over no axes");
  c.write("MeanVarianceNormalization", c.inputs(), {{"axes", c.attrs<AxesAttrs>().axes}});
}

void export_max_pool_indices(ExportCtx& c) {
  const MaxPoolIndicesAttrs& a = c.attrs<MaxPoolIndicesAttrs>();
  std::vector<OutAttr> attrs = window_attrs(a.pool);
  attrs.push_back({"dilations", a.pool.dilations});
  attrs.push_back({"ceil_mode", int64_t{a.pool.ceil_mode}});
  attrs.push_back({"storage_order", int64_t{a.column_major}});
  c.write("MaxPool", c.inputs(), std::move(attrs));
}

void export_max_unpool(ExportCtx& c) {
  const MaxUnpoolAttrs& a = c.attrs<MaxUnpoolAttrs>();
  std::vector<OutAttr> attrs = {{"kernel_shape", a.kernel}, {"strides", a.strides}};
  add_pads(attrs, AutoPad::none, a.pads_begin, a.pads_end);
  c.write("MaxUnpool", c.inputs(), std::move(attrs));
}

void export_col2im(ExportCtx& c) {
  const Col2ImAttrs& a = c.attrs<Col2ImAttrs>();
  c.need(18);
  std::vector<OutAttr> attrs = {{"strides", a.strides}, {"dilations", a.dilations}};
  add_pads(attrs, AutoPad::none, a.pads_begin, a.pads_end);
  std::vector<std::string> in = c.inputs();
  if (in.size() == 1) in = {c.in(0), c.ints(a.image), c.ints(a.block)};
  c.write("Col2Im", std::move(in), std::move(attrs));
}

void export_einsum(ExportCtx& c) {
  c.write("Einsum", c.inputs(), {{"equation", std::string_view(c.attrs<EinsumAttrs>().equation)}});
}

void export_grid_sample(ExportCtx& c) {
  const GridSampleAttrs& a = c.attrs<GridSampleAttrs>();
  c.need(20);
  c.write("GridSample", c.inputs(),
          {{"mode", enum_names(a.mode)[static_cast<size_t>(a.mode)]},
           {"padding_mode", enum_names(a.padding)[static_cast<size_t>(a.padding)]},
           {"align_corners", int64_t{a.align_corners}}});
}

void export_affine_grid(ExportCtx& c) {
  c.need(20);
  c.write("AffineGrid", c.inputs(),
          {{"align_corners", int64_t{c.attrs<AffineGridAttrs>().align_corners}}});
}

void export_roi_align(ExportCtx& c) {
  const RoiAlignAttrs& a = c.attrs<RoiAlignAttrs>();
  c.write("RoiAlign", c.inputs(),
          {{"mode", enum_names(a.mode)[static_cast<size_t>(a.mode)]},
           {"output_height", a.height},
           {"output_width", a.width},
           {"sampling_ratio", a.sampling_ratio},
           {"spatial_scale", a.scale},
           {"coordinate_transformation_mode",
            std::string_view(a.half_pixel ? "half_pixel" : "output_half_pixel")}});
}

void export_deform_conv(ExportCtx& c) {
  const DeformConvAttrs& a = c.attrs<DeformConvAttrs>();
  if (a.conv.auto_pad != AutoPad::none) return c.unsupported("with auto_pad");
  c.need(19);
  std::vector<OutAttr> attrs = {{"strides", a.conv.strides},
                                {"dilations", a.conv.dilations},
                                {"group", a.conv.groups},
                                {"offset_group", a.offset_groups}};
  add_pads(attrs, AutoPad::none, a.conv.pads_begin, a.conv.pads_end);
  c.write("DeformConv", c.inputs(), std::move(attrs));
}

// Every element of a column gathers its pixel, or a zero that is put before the first. Which it is
// the operator says itself, of an image whose pixels are their numbers.
void export_im2col(ExportCtx& c) {
  const Col2ImAttrs& a = c.attrs<Col2ImAttrs>();
  std::vector<int64_t> shape = {1, 1};
  shape.insert(shape.end(), a.image.begin(), a.image.end());
  const auto numbers = [&]() -> Result<TensorData> {
    HONE_ASSIGN(TensorData image, TensorData::zeros({DType::f64, Shape(shape)}));
    for (int64_t i = 0; i < image.numel(); ++i)
      image.as_mutable<double>()[i] = static_cast<double>(i + 1);
    HONE_ASSIGN(const TensorData columns, evaluate(op::im2col, {&image, 1}, a));
    HONE_ASSIGN(const TensorData from, cast(columns, DType::i64));
    return from.reshaped({columns.shape()[1], columns.shape()[2]});
  }();
  if (!numbers.ok()) return c.unsupported(numbers.status().message());
  const std::string flat = c.part("Reshape", {c.in(0), c.ints({0, 0, -1})});
  const std::string padded = c.part("Pad", {flat, c.ints({0, 0, 1, 0, 0, 0})});
  const std::string taps = c.part("Gather", {padded, c.tensor(*numbers)}, {{"axis", int64_t{2}}});
  c.write("Reshape", {taps, c.ints({0, -1, numbers->shape()[1]})});
}

// +1 and -1 by turns.
Result<TensorData> checkerboard(int64_t n, DType dtype) {
  HONE_ASSIGN(TensorData t, TensorData::allocate({DType::f64, {n, n}}));
  for (int64_t i = 0; i < n * n; ++i) t.as_mutable<double>()[i] = (i / n + i % n) % 2 == 0 ? 1 : -1;
  return cast(t, dtype);
}

// Cramer's rule: the determinants of what is left without row i and column j, for all i and j at
// once. ONNX has no inverse; for matrices that are large this takes too much.
void export_matrix_inverse(ExportCtx& c) {
  constexpr int64_t kMostRows = 32;
  const ValueInfo& info = c.input_info(0);
  const int rank = c.rank(0);
  const int64_t n = info.typed && rank >= 2 ? info.type.shape[rank - 1] : -1;
  if (n < 1 || n > kMostRows) return c.unsupported(format("of other than 1 to {} rows", kMostRows));
  if (n == 1) return c.write("Reciprocal", {c.in(0)});
  if (rank + 2 > kMaxRank) return c.unsupported(format("of {} dimensions", rank));
  std::vector<int64_t> others, perm;
  for (int64_t i = 0; i < n * n; ++i)
    if (i / n != i % n) others.push_back(i % n);
  const auto table = TensorData::vector_of(std::span<const int64_t>(others));
  const auto rows = table.ok() ? table->reshaped({n, n - 1}) : Result<TensorData>(table.status());
  const auto signs = checkerboard(n, c.dtype(0));
  if (!rows.ok() || !signs.ok()) return c.unsupported("for want of memory");
  const std::string left = c.tensor(*rows);
  for (int64_t k = 0; k < rank - 2; ++k) perm.push_back(k);
  for (const int64_t k : {rank, rank - 2, rank - 1, rank + 1}) perm.push_back(k);
  // (.., N, N) -> (.., i, N-1, N) -> (.., i, N-1, j, N-1) -> (.., j, i, N-1, N-1) -> (.., j, i)
  std::string v = c.part("Gather", {c.in(0), left}, {{"axis", int64_t{rank - 2}}});
  v = c.part("Gather", {v, left}, {{"axis", int64_t{rank}}});
  v = c.part("Det", {c.part("Transpose", {v}, {{"perm", perm}})});
  v = c.part("Mul", {v, c.tensor(*signs)});
  const std::string det = c.part("Unsqueeze", {c.part("Det", {c.in(0)}), c.ints({-2, -1})});
  c.write("Div", {v, det});
}

constexpr ExportRule kExports[] = {
    {&op::affine_grid, "AffineGrid", export_affine_grid},
    {&op::col2im, "Col2Im", export_col2im},
    {&op::col2im_dyn, "Col2Im", export_col2im},
    {&op::deform_conv, "DeformConv", export_deform_conv},
    {&op::det, "Det"},
    {&op::einsum, "Einsum", export_einsum},
    {&op::global_lp_pool, "GlobalLpPool", export_global_lp_pool},
    {&op::grid_sample, "GridSample", export_grid_sample},
    {&op::im2col, "", export_im2col},
    {&op::lp_norm, "LpNormalization", export_lp_norm},
    {&op::lp_pool, "LpPool", export_lp_pool},
    {&op::lrn, "LRN", export_lrn},
    {&op::matrix_inverse, "", export_matrix_inverse},
    {&op::max_pool_indices, "MaxPool", export_max_pool_indices},
    {&op::max_unpool, "MaxUnpool", export_max_unpool},
    {&op::mean_variance_norm, "MeanVarianceNormalization", export_mean_variance},
    {&op::roi_align, "RoiAlign", export_roi_align},
};

}  // namespace

std::span<const ImportRule> vision_imports() { return kImports; }
std::span<const ExportRule> vision_exports() { return kExports; }

}  // namespace hone::onnx
