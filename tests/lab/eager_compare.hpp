// SPDX-License-Identifier: Apache-2.0
// Compares one model written define-by-run with its reference data, with its imported form, and
// with its traced form.
#pragma once

#include "hone/npz.hpp"
#include "tests/lab/eager_models.hpp"

namespace hone::lab {

/// What one comparison found: the distance as a share of what is allowed (1 is the limit).
struct Finding {
  std::string_view what;
  double share = 0;
  bool same_bits = false;
  std::string where;  ///< The worst place.
};

struct CompareOptions {
  int threads = 1;
  bool f64 = false;    ///< Also the losses in f64, which leave no room for rounding.
  bool spoil = false;  ///< Change one weight of the define-by-run model by a hundredth.
  std::string work;    ///< An existing folder for traced models.
};

/// The columns of the table, in the order of `compare`'s findings.
std::span<const std::string_view> columns(bool f64);

/// `folder` has model.onnx, input.npz, output.npz, train.npz and meta.json (README.md).
Result<std::vector<Finding>> compare(const EagerModel& model, const std::string& folder,
                                     const CompareOptions& options);

}  // namespace hone::lab
