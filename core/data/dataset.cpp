// SPDX-License-Identifier: Apache-2.0
// Data sets in memory, and parts of data sets.
#include <cstring>

#include "hone/data.hpp"

namespace hone {

namespace {

class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<NamedTensor> tensors) : tensors_(std::move(tensors)) {
    for (const NamedTensor& t : tensors_) {
      TensorType type = t.data.type();
      type.shape.erase(0);
      columns_.push_back({t.name, type});
    }
  }
  int64_t size() const override { return tensors_[0].data.shape()[0]; }
  const std::vector<Column>& columns() const override { return columns_; }
  Status read(int64_t index, std::span<const TensorView> into) const override {
    if (index < 0 || index >= size())
      return invalid("sample {} does not exist: the data set has {}", index, size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const size_t bytes = static_cast<size_t>(columns_[i].type.bytes());
      if (bytes > 0)
        std::memcpy(
            into[i].data,
            static_cast<const char*>(tensors_[i].data.data()) + static_cast<size_t>(index) * bytes,
            bytes);
    }
    return {};
  }

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<Column> columns_;
};

class SliceDataset final : public Dataset {
 public:
  SliceDataset(std::shared_ptr<const Dataset> base, int64_t first, int64_t count)
      : base_(std::move(base)), first_(first), count_(count) {}
  int64_t size() const override { return count_; }
  const std::vector<Column>& columns() const override { return base_->columns(); }
  Status read(int64_t index, std::span<const TensorView> into) const override {
    if (index < 0 || index >= count_)
      return invalid("sample {} does not exist: the slice has {}", index, count_);
    return base_->read(first_ + index, into);
  }

 private:
  std::shared_ptr<const Dataset> base_;  // shared: several slices of one set
  int64_t first_, count_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> make_tensor_dataset(std::vector<NamedTensor> tensors) {
  if (tensors.empty()) return invalid("a data set needs at least one tensor");
  for (const NamedTensor& t : tensors) {
    if (!t.data.defined() || t.data.shape().rank() < 1)
      return invalid("data set: '{}' has no axis that counts samples", t.name);
    if (t.data.shape()[0] != tensors[0].data.shape()[0])
      return invalid("data set: '{}' has {} samples, '{}' has {}", t.name, t.data.shape()[0],
                     tensors[0].name, tensors[0].data.shape()[0]);
  }
  if (tensors[0].data.shape()[0] == 0)
    return invalid("the data set is empty: '{}' has no samples", tensors[0].name);
  return std::shared_ptr<const Dataset>(std::make_shared<TensorDataset>(std::move(tensors)));
}

std::shared_ptr<const Dataset> slice_dataset(std::shared_ptr<const Dataset> base, int64_t first,
                                             int64_t count) {
  return std::make_shared<SliceDataset>(std::move(base), first, count);
}

}  // namespace hone
