// SPDX-License-Identifier: Apache-2.0
// All that a training needs to go on: saved, and taken over again.
#include <algorithm>

#include "core/base/platform.hpp"
#include "core/runtime/trainer_impl.hpp"

namespace hone {

namespace {

bool is_writable(TensorData data) { return data.mutable_data() != nullptr; }

// Leaves no page of a mapped file in memory.
bool same_bytes(const TensorData& a, const TensorData& b) {
  bool same = a.bytes() == b.bytes();
  const std::byte* other = b.as_bytes().data();
  platform::read_through(a.as_bytes(), [&](std::span<const std::byte> block) {
    same = same && std::equal(block.begin(), block.end(), other);
    platform::release_pages(other, static_cast<int64_t>(block.size()));
    other += block.size();
  });
  return same;
}

}  // namespace

Result<Trainer::State> Trainer::save() const {
  State out;
  out.step = impl_->step;
  for (const StateStore::Entry& e : impl_->engine.states().entries()) {
    if (Impl::waits(e.name)) continue;
    HONE_ASSIGN(TensorData copy, e.data.clone());
    out.entries.push_back({e.name, e.role, std::move(copy)});
  }
  return out;
}

Status Trainer::Impl::check_fits(const State& state) const {
  const StateStore& store = engine.states();
  std::string problems;
  const auto complain = [&](const std::string& text) {
    problems += (problems.empty() ? "" : "; ") + text;
  };
  for (const StateTensor& e : state.entries) {
    const StateStore::Entry* own = store.find(e.name);
    if (!own && (e.role == StateRole::parameter || e.role == StateRole::buffer))
      complain(format("'{}' is not in the model", e.name));
    if (own && own->data.type() != e.data.type())
      complain(format("'{}' is {}, the model has {}", e.name, e.data.type(), own->data.type()));
  }
  for (const StateStore::Entry& own : store.entries()) {
    if (waits(own.name)) continue;
    const bool there = std::any_of(state.entries.begin(), state.entries.end(),
                                   [&](const StateTensor& e) { return e.name == own.name; });
    if (!there) complain(format("'{}' is missing", own.name));
  }
  if (problems.empty()) return {};
  return invalid("the saved state does not fit this trainer: {}", problems);
}

// What may fail comes first; then contents are copied one by one to where they belong.
Status Trainer::restore(const State& state) {
  HONE_TRY(impl_->check_fits(state));
  StateStore& store = impl_->engine.states();
  std::vector<const StateTensor*> in_place, adopted;
  for (const StateTensor& e : state.entries) {
    const StateStore::Entry* own = store.find(e.name);
    if (own && is_writable(own->data))
      in_place.push_back(&e);
    else if (!own || !same_bytes(own->data, e.data))
      adopted.push_back(&e);
  }
  HONE_TRY(impl_->engine.adopt_states(adopted));
  for (const StateTensor* e : in_place) {
    TensorData target = store.find(e->name)->data;
    copy_through(e->data, target);
  }
  store.changed();
  impl_->drop_gradients();
  impl_->step = state.step;
  return {};
}

}  // namespace hone
