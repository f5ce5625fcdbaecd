// SPDX-License-Identifier: Apache-2.0
// Modules: everything in hone/nn/.
#pragma once

#include "hone/nn/attention.hpp"
#include "hone/nn/init.hpp"
#include "hone/nn/layers.hpp"
#include "hone/nn/module.hpp"
#include "hone/nn/recurrent.hpp"
#include "hone/nn/trace.hpp"
