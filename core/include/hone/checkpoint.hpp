// SPDX-License-Identifier: Apache-2.0
// Checkpoints, from which training goes on bit for bit, and deltas, which hold only what training
// changed.
#pragma once

#include "hone/model.hpp"

namespace hone {

/// Where a data loader stands.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t index = 0;  ///< Samples of this epoch already seen.
  uint64_t seed = 0;
};

/// All that a training run needs to go on. Names are unique.
struct Checkpoint {
  std::vector<StateTensor> tensors;  ///< Parameters, buffers, optimizer state, random counters.
  int64_t step = 0;
  LoaderPosition loader;
  double loss_scale = 1;
  std::string base_hash;  ///< content_hash of the model before training; may be empty.
  std::map<std::string, std::string> metadata;

  const StateTensor* find(std::string_view name) const;
};

/// Writes a checkpoint with checksums: to a temporary beside it, flushed, then renamed. After a
/// crash, a kill or a full disk there is the old one or the new one under `path`, never half of
/// one. Errors: invalid_argument (a tensor without a name or data, a name used twice), io_error.
Status save_checkpoint(const Checkpoint& checkpoint, const std::string& path);

/// Opens a checkpoint; all of it is compared with its checksums. The tensors borrow from the mapped
/// file: a later checkpoint may replace it, but it must not be cut short. Errors: not_found,
/// io_error, invalid_model, unsupported.
Result<Checkpoint> load_checkpoint(const std::string& path);

/// Gives each parameter and buffer of the model the tensor of its name. The checkpoint must have
/// all of them and no others; its optimizer state and random counters are for the session. Errors:
/// invalid_argument naming every tensor that is missing, left over, or of another role or type; the
/// model is then as before.
Status apply_checkpoint(Model& model, const Checkpoint& checkpoint);

/// Writes the parameters and buffers of `tuned` that differ from `base` or that `base` lacks
/// (adapters put in before training), and the content hash of `base`. The metadata is that of
/// `tuned`. Errors: invalid_argument (`tuned` lacks a state of `base`, or has it with another role
/// or type), io_error.
Status save_delta(const Model& base, const Model& tuned, const std::string& path);

/// Puts a delta over the model it was made from. Adapters must have been put into `base` again by
/// whoever put them in the first time. Errors: not_found, io_error, invalid_model, unsupported;
/// invalid_argument when `base` has another content (both hashes are named) or lacks a tensor.
/// `base` is then as before.
Status apply_delta(Model& base, const std::string& path);

}  // namespace hone
