// SPDX-License-Identifier: Apache-2.0
// Naming of weights by their content.
#pragma once

#include <set>
#include <string>

#include "hone/model.hpp"

namespace hone {

/// content_hash as if the model had no states of these names.
std::string content_hash_without(const Model& model, const std::set<std::string>& names);

}  // namespace hone
