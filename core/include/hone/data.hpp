// SPDX-License-Identifier: Apache-2.0
// Data sets and loaders.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/named_tensor.hpp"

namespace hone {

/// One named part of every sample: an image, a label.
struct Column {
  std::string name;
  TensorType type;  ///< Of one sample, without a batch axis.
};

/// Samples by index. `read` may be called from several threads at once when the implementation says
/// so.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual const std::vector<Column>& columns() const = 0;
  /// Writes sample `index` to `into`, one view a column, each of the column's type. Errors: what
  /// the source says.
  virtual Status read(int64_t index, std::span<const TensorView> into) const = 0;
};

/// A data set held in tensors whose first axis counts the samples. Reading is safe from several
/// threads. Errors: invalid_argument (no tensors, no samples, unequal numbers of samples: which and
/// how many).
Result<std::shared_ptr<const Dataset>> make_tensor_dataset(std::vector<NamedTensor> tensors);

/// The samples [first, first + count) of another data set, which it shares.
std::shared_ptr<const Dataset> slice_dataset(std::shared_ptr<const Dataset> base, int64_t first,
                                             int64_t count);

enum class Order : uint8_t {
  as_stored,
  shuffled,  ///< Anew each epoch, from the seed and the epoch alone.
};
enum class LastBatch : uint8_t { keep, drop };

struct LoaderOptions {
  int64_t batch = 32;
  Order order = Order::shuffled;
  LastBatch last = LastBatch::keep;
  uint64_t seed = 0;
};

/// Makes batches. Buffers are allocated once; `next` reuses them, so a batch is good until the next
/// call. One thread at a time.
class DataLoader {
 public:
  /// Errors: invalid_argument (batch below 1, empty data set, or no batch at all when the last is
  /// dropped).
  static Result<DataLoader> create(std::shared_ptr<const Dataset> data,
                                   const LoaderOptions& options);

  /// The next batch, one tensor a column with the batch axis first; goes on with the next epoch at
  /// the end of one.
  Result<std::span<const NamedTensor>> next();
  int64_t batches_per_epoch() const;
  int64_t epoch() const { return epoch_; }        ///< Of the next batch, from 0.
  int64_t position() const { return position_; }  ///< Samples of this epoch already given.
  /// Goes to where another loader of the same data and options stood. Errors: invalid_argument.
  Status seek(int64_t epoch, int64_t position);

 private:
  DataLoader(std::shared_ptr<const Dataset> data, const LoaderOptions& options);
  void reorder();
  Status make_buffers(int64_t count, std::vector<NamedTensor>& out) const;

  std::shared_ptr<const Dataset> data_;
  LoaderOptions options_;
  int64_t epoch_ = 0, position_ = 0;
  std::vector<int64_t> order_;
  std::vector<NamedTensor> full_, rest_;  // batches of the full size and of what is left at the end
};

}  // namespace hone
