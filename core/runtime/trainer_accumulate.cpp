// SPDX-License-Identifier: Apache-2.0
// Gradients of several batches for one update. Each batch's loss is a mean over its own targets, so
// the mean over all targets is the mean of the batches' gradients weighted by how many targets each
// has.
#include <algorithm>
#include <cstring>

#include "core/runtime/trainer_impl.hpp"

namespace hone {

std::vector<NamedTensor> rows_of(std::span<const NamedTensor> batch, int64_t first, int64_t last) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : batch) {
    Shape shape = t.data.shape();
    const int64_t row = t.data.bytes() / shape[0];
    shape[0] = last - first;
    out.push_back(
        {t.name,
         TensorData::borrow({t.data.dtype(), shape},
                            static_cast<const std::byte*>(t.data.data()) + first * row, nullptr)});
  }
  return out;
}

Result<int64_t> leading_extent(std::span<const NamedTensor> batch) {
  int64_t samples = -1;
  for (const NamedTensor& b : batch) {
    if (!b.data.defined() || b.data.shape().rank() == 0)
      return invalid("'{}' has no leading axis to cut into micro-batches", b.name);
    const int64_t n = b.data.shape()[0];
    if (samples >= 0 && n != samples)
      return invalid(
          "to be cut into micro-batches, all of a batch needs the same leading extent; '{}' has "
          "{}, "
          "'{}' has {}",
          batch[0].name, samples, b.name, n);
    samples = n;
  }
  if (samples < 1) return invalid("the batch is empty");
  return samples;
}

Result<int64_t> Trainer::Impl::part_size(std::span<const NamedTensor> batch) const {
  HONE_ASSIGN(const int64_t samples, leading_extent(batch));
  const int64_t parts = std::min<int64_t>(options.micro_batches, samples);
  return (samples + parts - 1) / parts;
}

bool Trainer::Impl::waits(std::string_view name) {
  return name == kWeightState || (name.size() > kSumSuffix.size() && name.ends_with(kSumSuffix) &&
                                  name[name.size() - kSumSuffix.size() - 1] == '/');
}

void Trainer::Impl::drop_gradients() {
  weight = weighted_loss = 0;
  for (StateStore::Entry& e : engine.states().entries())
    if (waits(e.name)) std::memset(e.data.mutable_data(), 0, static_cast<size_t>(e.data.bytes()));
}

Result<double> Trainer::Impl::accumulate(std::span<const NamedTensor> batch) {
  begin_step();
  HONE_ASSIGN(Compiled* const c, program(batch, TrainForm::accumulate));
  feed(*c, batch);
  size_t done = 0;
  HONE_ASSIGN(const double loss, run_to_loss(*c, done));
  HONE_TRY(run_rest(*c, done));
  const double part = c->held[1].at(0);
  weight += part;
  weighted_loss += part * loss;
  return loss;
}

Result<StepResult> Trainer::Impl::apply() {
  begin_step();
  StepResult r{step, 0, lr, 0};
  if (weight > 0) {
    r.loss = weighted_loss / weight;
    HONE_ASSIGN(Compiled* const c, program({}, TrainForm::apply));
    HONE_TRY(run_rest(*c, 0));
    if (!c->held.empty()) r.grad_norm = c->held[0].at(0);
  }
  drop_gradients();
  ++step;
  return r;
}

Result<double> Trainer::accumulate(std::span<const NamedTensor> batch) {
  return impl_->accumulate(batch);
}
Result<StepResult> Trainer::apply() { return impl_->apply(); }

void Trainer::Impl::remember() {
  for (StateTensor& u : undo) {
    const auto now = engine.states().find(u.name)->data.as_bytes();
    std::copy(now.begin(), now.end(), static_cast<std::byte*>(u.data.mutable_data()));
  }
}

void Trainer::Impl::roll_back() {
  for (const StateTensor& u : undo) {
    TensorData now = engine.states().find(u.name)->data;
    const auto before = u.data.as_bytes();
    std::copy(before.begin(), before.end(), static_cast<std::byte*>(now.mutable_data()));
  }
  engine.states().changed();
  drop_gradients();
}

Result<StepResult> Trainer::Impl::step_in_parts(std::span<const NamedTensor> batch) {
  if (weight != 0)
    return invalid(
        "gradients wait for `apply`, and a step in {} micro-batches adds up in their place: call "
        "apply first, or restore a state",
        options.micro_batches);
  HONE_ASSIGN(const int64_t samples, leading_extent(batch));
  HONE_ASSIGN(const int64_t size, part_size(batch));
  // All plans first: what is refused has changed nothing.
  HONE_TRY(program(rows_of(batch, (samples - 1) / size * size, samples), TrainForm::accumulate)
               .status());
  HONE_TRY(program(rows_of(batch, 0, size), TrainForm::accumulate).status());
  HONE_TRY(program({}, TrainForm::apply).status());
  remember();
  Status done;
  for (int64_t first = 0; first < samples && done.ok(); first += size)
    done = accumulate(rows_of(batch, first, std::min(samples, first + size))).status();
  if (done.ok()) {
    Result<StepResult> r = apply();
    if (r.ok()) return r;
    done = r.status();
  }
  roll_back();
  return done;
}

}  // namespace hone
