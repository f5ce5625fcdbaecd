// SPDX-License-Identifier: Apache-2.0
// The steps are gone through in order with the limit as the memory there is. Where it does not
// suffice, the buffer that is cheapest to miss is given up, and computed again when it is read
// next, from what is left by then. What "cheapest" means is the time to compute it again over its
// bytes and over how long they stay free: the rule of Kirisame et al., "Dynamic Tensor
// Rematerialization" (2021), with the distance to the next use, which is known here, in the place
// of the time since the last one.
#include "core/plan/rehearsal.hpp"

#include <algorithm>
#include <cmath>

namespace hone {

Facts::Facts(const WorkList& list) : work(list) {
  const size_t buffers = work.bytes.size(), steps = work.steps.size();
  producer.assign(buffers, -1);
  uses.resize(buffers);
  until.assign(steps, kNever);
  std::vector<int> writers(buffers, 0);
  std::vector<int32_t> overwritten;  // by state
  for (size_t s = 0; s < steps; ++s) {
    const Work& w = work.steps[s];
    total += w.cost;
    for (int32_t b : w.reads)
      if (uses[index(b)].empty() || uses[index(b)].back() != static_cast<int32_t>(s))
        uses[index(b)].push_back(static_cast<int32_t>(s));
    for (int32_t b : w.writes) {
      ++writers[index(b)];
      if (w.repeatable) producer[index(b)] = static_cast<int32_t>(s);
    }
    for (int32_t x : w.state_writes) {
      if (overwritten.size() <= index(x)) overwritten.resize(index(x) + 1, kNever);
      overwritten[index(x)] = std::min(overwritten[index(x)], static_cast<int32_t>(s));
    }
  }
  for (size_t b = 0; b < buffers; ++b)
    if (writers[b] != 1) producer[b] = -1;
  for (const Work& w : work.steps) {
    first.push_back(operands.size());
    operands.insert(operands.end(), w.reads.begin(), w.reads.end());
    writes_at.push_back(operands.size());
    operands.insert(operands.end(), w.writes.begin(), w.writes.end());
    costs.push_back(w.cost);
  }
  first.push_back(operands.size());
  for (size_t s = 0; s < steps; ++s)
    for (int32_t x : work.steps[s].state_reads)
      if (index(x) < overwritten.size()) until[s] = std::min(until[s], overwritten[index(x)]);
}

namespace {

constexpr size_t kLongest = 4;  // runs for each step, on average

class Rehearsal {
 public:
  Rehearsal(const Facts& facts, const Way& way, double most)
      : f_(facts),
        work_(facts.work),
        limit_(way.room),
        weights_(way.weights),
        most_(most),
        reluctance_(way.reluctance) {
    const size_t buffers = work_.bytes.size();
    resident_.assign(buffers, false);
    pins_.assign(buffers, 0);
    used_.assign(buffers, 0);
    need_.assign(buffers, kNever);
    again_.assign(buffers, 0);
    good_until_.assign(buffers, kNever);
  }

  // Whether the steps fit.
  bool run() {
    for (now_ = 0; now_ < static_cast<int32_t>(work_.steps.size()); ++now_) {
      if (!run_step(now_)) return false;
      for (int32_t b : work_.steps[at(now_)].reads)
        while (used_[at(b)] < f_.uses[at(b)].size() && f_.uses[at(b)][used_[at(b)]] <= now_)
          ++used_[at(b)];
    }
    return true;
  }
  Sequence take() { return std::move(sequence_); }

 private:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  int32_t next_use(int32_t b) const {
    const auto& uses = f_.uses[at(b)];
    return used_[at(b)] < uses.size() ? uses[used_[at(b)]] : kNever;
  }

  // Makes everything that the step reads resident, finds room, runs it.
  bool run_step(int32_t s) {
    const Work& w = work_.steps[at(s)];
    for (int32_t b : w.reads) ++pins_[at(b)];
    bool fits = true;
    for (int32_t b : w.reads) {
      if (resident_[at(b)]) continue;
      const int32_t p = f_.producer[at(b)];
      fits = p >= 0 && f_.until[at(p)] > now_ && run_step(p);
      if (!fits) break;
    }
    fits = fits && make_room(s);
    for (int32_t b : w.reads) --pins_[at(b)];
    if (!fits) return false;
    for (int32_t b : w.writes) {
      if (!resident_[at(b)]) live_ += work_.bytes[at(b)];
      resident_[at(b)] = true;
    }
    for (const auto& [from, to] : taken_) give_up(from);
    sequence_.push_back(s);
    cost_ += w.cost;
    return cost_ <= most_ && sequence_.size() <= kLongest * work_.steps.size();
  }

  void give_up(int32_t b) {
    if (!resident_[at(b)]) return;
    resident_[at(b)] = false;
    live_ -= work_.bytes[at(b)];
  }

  // Bytes that the step adds; `taken_` gets the reads whose bytes its writes take over.
  int64_t added(const Work& w, int32_t s) {
    taken_.clear();
    int64_t bytes = w.scratch;
    for (int32_t b : w.writes)
      if (!resident_[at(b)]) bytes += work_.bytes[at(b)];
    for (const MayShare m : w.may_share) {
      const int32_t from = w.reads[at(m.read)], to = w.writes[at(m.write)];
      if (pins_[at(from)] > 1 || resident_[at(to)] || work_.bytes[at(from)] < work_.bytes[at(to)] ||
          needed_after(from, s))
        continue;
      const bool free = std::none_of(taken_.begin(), taken_.end(), [&](const auto& t) {
        return t.first == from || t.second == to;
      });
      if (!free) continue;
      taken_.emplace_back(from, to);
      bytes -= work_.bytes[at(to)];
    }
    return bytes;
  }

  bool needed_after(int32_t b, int32_t s) const {
    const auto& uses = f_.uses[at(b)];
    size_t k = used_[at(b)];
    if (k < uses.size() && s == now_ && uses[k] == now_) ++k;
    if (k < uses.size()) return true;
    return need_[at(b)] != kNever && need_[at(b)] > now_;
  }

  bool make_room(int32_t s) {
    const Work& w = work_.steps[at(s)];
    for (int32_t b : w.writes) ++pins_[at(b)];
    bool fits = true;
    if (given_up_) look_ahead();
    while (live_ + added(w, s) > limit_) {
      look_ahead();
      if (drop_dead()) continue;
      const int32_t b = cheapest();
      if (b < 0) {
        fits = false;
        break;
      }
      give_up(b);
      given_up_ = true;
    }
    for (int32_t b : w.writes) --pins_[at(b)];
    return fits;
  }

  // When each buffer is read next, directly or to compute again what has been given up; what it
  // costs to compute it again; until when that is possible.
  void look_ahead() {
    for (size_t b = 0; b < need_.size(); ++b) need_[b] = next_use(static_cast<int32_t>(b));
    for (size_t s = at(now_); s-- > 0;) {
      int32_t need = kNever;
      for (int32_t b : f_.writes(s))
        if (!resident_[at(b)]) need = std::min(need, need_[at(b)]);
      if (need == kNever) continue;
      for (int32_t b : f_.reads(s)) need_[at(b)] = std::min(need_[at(b)], need);
    }
    for (size_t s = 0; s < at(now_); ++s) {
      double cost = f_.costs[s];
      int32_t until = f_.until[s];
      for (int32_t b : f_.reads(s)) {
        if (resident_[at(b)]) continue;
        cost += again_[at(b)];
        until = f_.producer[at(b)] < 0 ? -1 : std::min(until, good_until_[at(b)]);
      }
      for (int32_t b : f_.writes(s)) {
        again_[at(b)] = cost;
        good_until_[at(b)] = until;
      }
    }
  }

  bool drop_dead() {
    bool any = false;
    for (size_t b = 0; b < resident_.size(); ++b) {
      if (!resident_[b] || pins_[b] > 0 || need_[b] != kNever) continue;
      give_up(static_cast<int32_t>(b));
      any = true;
    }
    return any;
  }

  int32_t cheapest() const {
    int32_t best = -1;
    double best_value = 0;
    for (size_t i = 0; i < resident_.size(); ++i) {
      if (!resident_[i] || pins_[i] > 0 || f_.producer[i] < 0 || work_.bytes[i] == 0) continue;
      if (good_until_[i] <= need_[i]) continue;
      const double value = (reluctance_.empty() ? 1 : static_cast<double>(reluctance_[i])) *
                           again_[i] /
                           (std::pow(static_cast<double>(work_.bytes[i]), weights_.bytes) *
                            std::pow(static_cast<double>(need_[i] - now_ + 1), weights_.distance));
      if (best >= 0 && value >= best_value) continue;
      best = static_cast<int32_t>(i);
      best_value = value;
    }
    return best;
  }

  const Facts& f_;
  const WorkList& work_;
  const int64_t limit_;
  const Weights weights_;
  const double most_;
  const std::span<const float> reluctance_;
  int32_t now_ = 0;
  int64_t live_ = 0;
  double cost_ = 0;
  bool given_up_ = false;
  Sequence sequence_;
  std::vector<char> resident_;
  std::vector<int> pins_;
  std::vector<size_t> used_;  // of Facts::uses, how many are past
  std::vector<int32_t> need_, good_until_;
  std::vector<double> again_;
  std::vector<std::pair<int32_t, int32_t>> taken_;
};

}  // namespace

bool rehearse(const Facts& facts, const Way& way, double most, Sequence& runs) {
  Rehearsal rehearsal(facts, way, most);
  if (!rehearsal.run()) return false;
  runs = rehearsal.take();
  return true;
}

}  // namespace hone
