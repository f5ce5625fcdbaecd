// SPDX-License-Identifier: Apache-2.0
// A graph as text that two graphs share when they say the same.
#pragma once

#include <string>

#include "hone/graph.hpp"

namespace hone::test {

/// Inputs, states, nodes, outputs and updates with types, attributes and contents (as hashes), one
/// a line. Ids are left out, and so are the names of constants and nodes, which a file format may
/// change.
std::string graph_text(const Graph& g);

/// "add mul": the operators in order.
std::string operators(const Graph& g);

}  // namespace hone::test
