// SPDX-License-Identifier: Apache-2.0
// The loops that measure the machine; machine.hpp has the measurement.
#pragma once

#include <cstdint>

namespace hone::cli {

/// Multiply-adds in registers, from sink[0] and sink[1]; leaves something in sink[2] so that no
/// compiler drops them. Returns how many floating-point operations that was.
double mul_adds(int64_t rounds, float* sink);
/// The same of bf16 pairs; 0 where there is no instruction for it.
double bf16_mul_adds(int64_t rounds, float* sink);
/// a = b + 3 c.
void triad(float* a, const float* b, const float* c, int64_t n);
const char* vector_target();

}  // namespace hone::cli
