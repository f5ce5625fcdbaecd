// SPDX-License-Identifier: Apache-2.0
// The tables of import and export rules, one pair for each family of operators (onnx_<family>.cpp).
#pragma once

#include "core/import/export_ctx.hpp"
#include "core/import/import_ctx.hpp"

namespace hone::onnx {

// clang-format off
#define HONE_ONNX_FAMILIES(F) \
  F(elementwise) F(activation) F(reduce) F(shape) F(movement) F(index) F(linear) F(pool) \
  F(norm) F(resize) F(select) F(training) F(recurrent) F(vision) F(attention) F(signal) \
  F(quantize) F(optimizers)
// clang-format on

#define HONE_ONNX_FAMILY(name)                  \
  std::span<const ImportRule> name##_imports(); \
  std::span<const ExportRule> name##_exports();
HONE_ONNX_FAMILIES(HONE_ONNX_FAMILY)
#undef HONE_ONNX_FAMILY

}  // namespace hone::onnx
