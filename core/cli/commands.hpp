// SPDX-License-Identifier: Apache-2.0
// The commands of `hone`: each adds itself to the command line and, when chosen, leaves what is to
// be done in `action`.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "hone/status.hpp"

namespace hone::cli {

/// Exit codes: 0 done, 1 failed (the message says why), 2 the command line is wrong.
using Action = std::function<Status()>;

void add_convert(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);

}  // namespace hone::cli
