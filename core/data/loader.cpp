// SPDX-License-Identifier: Apache-2.0
// Batches from a data set.
#include <algorithm>
#include <numeric>

#include "core/tensor/philox.hpp"
#include "hone/data.hpp"

namespace hone {

DataLoader::DataLoader(std::shared_ptr<const Dataset> data, const LoaderOptions& options)
    : data_(std::move(data)), options_(options) {}

Result<DataLoader> DataLoader::create(std::shared_ptr<const Dataset> data,
                                      const LoaderOptions& options) {
  if (options.batch < 1) return invalid("a batch needs at least one sample, got {}", options.batch);
  if (!data || data->size() == 0) return invalid("the data set is empty");
  if (options.last == LastBatch::drop && data->size() < options.batch)
    return invalid("the data set has {} samples: not one full batch of {}", data->size(),
                   options.batch);
  DataLoader loader(std::move(data), options);
  HONE_TRY(loader.make_buffers(std::min(options.batch, loader.data_->size()), loader.full_));
  const int64_t left = loader.data_->size() % options.batch;
  if (options.last == LastBatch::keep && left != 0 && loader.data_->size() > options.batch)
    HONE_TRY(loader.make_buffers(left, loader.rest_));
  loader.reorder();
  return loader;
}

Status DataLoader::make_buffers(int64_t count, std::vector<NamedTensor>& out) const {
  for (const Column& c : data_->columns()) {
    TensorType type = c.type;
    if (type.shape.rank() == kMaxRank)
      return invalid("column '{}' has too many axes for a batch: {}", c.name, c.type);
    type.shape.insert(0, count);
    HONE_ASSIGN(TensorData t, TensorData::allocate(type));
    out.push_back({c.name, std::move(t)});
  }
  return {};
}

int64_t DataLoader::batches_per_epoch() const {
  const int64_t n = data_->size(), b = options_.batch;
  return options_.last == LastBatch::drop ? n / b : (n + b - 1) / b;
}

// Fisher and Yates' shuffle; the numbers depend on seed, epoch and place only. An epoch of a single
// batch keeps its order: no sum would gain by another.
void DataLoader::reorder() {
  order_.resize(static_cast<size_t>(data_->size()));
  std::iota(order_.begin(), order_.end(), 0);
  if (options_.order != Order::shuffled || data_->size() <= options_.batch) return;
  for (size_t i = order_.size() - 1; i > 0; --i) {
    const auto bits = Philox::block(options_.seed, static_cast<uint64_t>(epoch_), i);
    const uint64_t random = (static_cast<uint64_t>(bits[0]) << 32) | bits[1];
    std::swap(order_[i], order_[random % (i + 1)]);
  }
}

Result<std::span<const NamedTensor>> DataLoader::next() {
  const int64_t n = data_->size();
  int64_t count = std::min(options_.batch, n - position_);
  if (count == 0 || (options_.last == LastBatch::drop && count < options_.batch)) {
    ++epoch_;
    position_ = 0;
    reorder();
    count = std::min(options_.batch, n);
  }
  std::vector<NamedTensor>& batch = count == full_[0].data.shape()[0] ? full_ : rest_;
  std::vector<TensorView> views(batch.size());
  for (int64_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < batch.size(); ++c) {
      const TensorType& type = data_->columns()[c].type;
      views[c] = {type, static_cast<char*>(batch[c].data.mutable_data()) + i * type.bytes()};
    }
    const int64_t index = order_[static_cast<size_t>(position_ + i)];
    HONE_TRY(data_->read(index, views).with_context(format("sample {}", index)));
  }
  position_ += count;
  return std::span<const NamedTensor>(batch);
}

Status DataLoader::seek(int64_t epoch, int64_t position) {
  if (epoch < 0 || position < 0 || position > data_->size())
    return invalid("cannot go to epoch {}, sample {}: the data set has {} samples", epoch, position,
                   data_->size());
  epoch_ = epoch;
  position_ = position;
  reorder();
  return {};
}

}  // namespace hone
