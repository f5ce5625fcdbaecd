// SPDX-License-Identifier: Apache-2.0
// hone bench --packing: the arena planner on a table of buffers.
#pragma once

#include <string>

#include "hone/status.hpp"

namespace hone::cli {

struct PackingArgs {
  std::string file;  ///< A .csv with the columns id, lower, upper (exclusive) and size.
  std::string out;   ///< Where to write the table with the offsets; "": nowhere.
  double seconds = 10;
  int64_t capacity = 0;  ///< An arena that is small enough; 0: only the lower bound is.
  int64_t alignment = 1;
  bool json = false;
};

/// Packs and reports. Errors: io_error, invalid_argument (names the line and what was expected).
Status bench_packing(const PackingArgs& args);

}  // namespace hone::cli
