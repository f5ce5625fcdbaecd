// SPDX-License-Identifier: Apache-2.0
// `hone inspect --plan`: making a plan and showing it.
#pragma once

#include "core/cli/common.hpp"
#include "hone/model.hpp"
#include "hone/trainer.hpp"

namespace hone::cli {

struct PlanArgs {
  bool train = false;
  double recompute_share = TrainerOptions().recompute_share;
  std::string picture;
  DimArgs dims;
  DeviceArgs device;
  /// `plan`: the option without which these make no sense.
  void add_to(CLI::App& command, CLI::Option* plan);
};

/// What can be wrong before there is a plan. Errors: invalid_argument.
Status check(const PlanArgs& args);

/// Plans, prints the tables and writes the picture. `file`: where the model came from.
Status show_plan(const PlanArgs& args, const std::string& file, const Model& model);

}  // namespace hone::cli
