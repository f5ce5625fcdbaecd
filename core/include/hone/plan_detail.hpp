// SPDX-License-Identifier: Apache-2.0
// A memory plan in full: what runs when, and which bytes of the arena belong to what meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

/// What a step belongs to. Inference is all forward. A backward step that needs no gradient may run
/// before the loss, where that saves memory.
enum class PlanPhase : uint8_t { forward, backward, update };

struct PlanStep {
  std::string name;    ///< "conv2d 'stem.0'", "backward of relu 'act.1' (mul)".
  std::string kernel;  ///< What carries it out: "onednn.conv", "reference".
  PlanPhase phase = PlanPhase::forward;
  bool again = false;  ///< It has run before: what it makes had been given up to save memory.
};

/// Why bytes are held.
enum class PlanUse : uint8_t {
  kept,      ///< Made before the loss is known and read after that.
  passing,   ///< Made and used up before the loss is known; in inference, everything.
  gradient,  ///< Made after the loss.
  work,      ///< A kernel's scratch memory, or data on the way into or out of its layout.
  again,     ///< Made a second time.
};
inline constexpr int kPlanUses = 5;

/// Bytes of the arena that hold one thing during steps [first, last], both included. A buffer whose
/// bytes another takes over in place ends with the step before: no two overlap in steps and bytes.
struct PlanBuffer {
  std::string name;  ///< "relu 'act.1'", "gradient of stem.0.weight".
  std::string type;  ///< "f32[8, 64, 56, 56]"; "kernel's layout" where it is the kernel's own.
  PlanUse use = PlanUse::passing;
  int64_t bytes = 0;  ///< What it occupies: rounded up, and all that it took over.
  int64_t offset = 0;
  int32_t first = 0, last = 0;
  bool in_place = false;  ///< It took over the bytes of the one before it.
};

struct PlanDetail {
  std::vector<PlanStep> steps;      ///< In the order in which they run.
  std::vector<PlanBuffer> buffers;  ///< Of the arena, by their first step.
  std::vector<int64_t> live_bytes;  ///< During each step.
  int64_t arena_bytes = 0;
  int32_t peak_step = -1;  ///< The first step with the most live bytes; -1 without steps.
  int32_t loss_step = -1;  ///< The step after which the loss is known; -1 without a loss.
  bool trains = false;

  int64_t peak_bytes() const {
    return peak_step < 0 ? 0 : live_bytes[static_cast<size_t>(peak_step)];
  }
};

}  // namespace hone
