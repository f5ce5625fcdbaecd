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
#include <utility>

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

// What a step would take to run again, and when somebody will want that. Kept up to date as buffers
// come and go, for the steps that have run: a change goes on only as far as it alters something,
// and costs are added up only where they are asked for.
class Outlook {
 public:
  explicit Outlook(const Facts& facts) : f_(facts) {
    const size_t buffers = f_.work.bytes.size(), steps = f_.work.steps.size();
    resident_.assign(buffers, false);
    used_.assign(buffers, 0);
    need_.assign(buffers, kNever);
    demand_.assign(steps, kNever);
    again_.assign(steps, 0);
    good_until_.assign(steps, kNever);
    stale_.assign(steps, false);
    place_.resize(buffers);
  }

  bool resident(int32_t b) const { return resident_[at(b)]; }
  int64_t live() const { return live_; }
  /// When `b` is read next, by a step to come or to compute again what has been given up.
  int32_t need(int32_t b) const { return need_[at(b)]; }
  /// When a step to come reads it.
  int32_t next_use(int32_t b) const {
    const auto& uses = f_.uses[at(b)];
    return used_[at(b)] < uses.size() ? uses[used_[at(b)]] : kNever;
  }
  bool used_after(int32_t b, int32_t step) const {
    const auto& uses = f_.uses[at(b)];
    size_t k = used_[at(b)];
    if (k < uses.size() && uses[k] == step) ++k;
    return k < uses.size();
  }
  /// Whether `again` may be at most this much; it and `good_until` may be asked for then.
  bool add_up(int32_t step, double most);
  /// Time to compute again what the step makes, with what is not there; the step before which that
  /// must happen.
  double again(int32_t step) const { return again_[at(step)]; }
  int32_t good_until(int32_t step) const { return good_until_[at(step)]; }
  /// In no order.
  std::span<const int32_t> residents() const { return residents_; }

  void enter(int32_t b) {
    if (resident_[at(b)]) return;
    resident_[at(b)] = true;
    live_ += f_.work.bytes[at(b)];
    place_[at(b)] = residents_.size();
    residents_.push_back(b);
    flipped(b);
  }
  void leave(int32_t b) {
    if (!resident_[at(b)]) return;
    resident_[at(b)] = false;
    live_ -= f_.work.bytes[at(b)];
    const int32_t last = residents_.back();
    residents_[place_[at(b)]] = last;
    place_[at(last)] = place_[at(b)];
    residents_.pop_back();
    flipped(b);
  }
  /// The next step of the plain order has run; its results are resident.
  void ran(int32_t step) {
    ran_ = step + 1;
    stale_[at(step)] = true;
    for (int32_t b : f_.writes(at(step))) need_[at(b)] = needed(b);
  }
  /// What it read is behind.
  void past(int32_t step) {
    for (int32_t b : f_.reads(at(step))) {
      const auto& uses = f_.uses[at(b)];
      while (used_[at(b)] < uses.size() && uses[used_[at(b)]] <= step) ++used_[at(b)];
      renew(b, needed(b));
    }
    settle_needs();
  }

 private:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  void flipped(int32_t b) {
    make_stale(b);
    if (f_.producer[at(b)] < 0) return;
    want(f_.producer[at(b)]);
    settle_needs();
  }

  int32_t needed(int32_t b) const {
    int32_t need = next_use(b);
    for (int32_t s : f_.uses[at(b)]) {
      if (s >= ran_) break;
      need = std::min(need, demand_[at(s)]);
    }
    return need;
  }

  void renew(int32_t b, int32_t need) {
    if (need == need_[at(b)]) return;
    need_[at(b)] = need;
    if (!resident_[at(b)] && f_.producer[at(b)] >= 0) want(f_.producer[at(b)]);
  }

  void want(int32_t step) {
    wanted_.push_back(step);
    std::push_heap(wanted_.begin(), wanted_.end());
  }

  // From later steps to earlier ones: a step is wanted when what it made is, and is not there; then
  // so is what it reads.
  void settle_needs() {
    while (!wanted_.empty()) {
      const int32_t s = wanted_.front();
      while (!wanted_.empty() && wanted_.front() == s) {
        std::pop_heap(wanted_.begin(), wanted_.end());
        wanted_.pop_back();
      }
      int32_t demand = kNever;
      for (int32_t b : f_.writes(at(s)))
        if (!resident_[at(b)]) demand = std::min(demand, need_[at(b)]);
      const int32_t before = std::exchange(demand_[at(s)], demand);
      if (demand == before) continue;
      for (int32_t b : f_.reads(at(s)))
        renew(b, demand < before ? std::min(need_[at(b)], demand) : needed(b));
    }
  }

  // Whoever needs `b`, if only by way of what is not there, costs something else now. What follows
  // from a stale step is stale already.
  void make_stale(int32_t b) {
    open_.assign(1, b);
    while (!open_.empty()) {
      const int32_t changed = open_.back();
      open_.pop_back();
      for (int32_t s : f_.uses[at(changed)]) {
        if (s >= ran_) break;
        if (std::exchange(stale_[at(s)], true)) continue;
        for (int32_t w : f_.writes(at(s)))
          if (!resident_[at(w)]) open_.push_back(w);
      }
    }
  }

  void refresh_cost(size_t s) {
    double cost = f_.costs[s];
    int32_t until = f_.until[s];
    for (int32_t b : f_.reads(s)) {
      if (resident_[at(b)]) continue;
      const int32_t p = f_.producer[at(b)];
      if (p >= 0) cost += again_[at(p)];
      until = p < 0 ? -1 : std::min(until, good_until_[at(p)]);
    }
    again_[s] = cost;
    good_until_[s] = until;
  }

  const Facts& f_;
  int64_t live_ = 0;
  int32_t ran_ = 0;                  // steps of the plain order
  std::vector<char> resident_;       // by buffer
  std::vector<size_t> used_;         // of Facts::uses, how many are past
  std::vector<int32_t> need_;        // by buffer
  std::vector<int32_t> demand_;      // by step: need of what it made and is not there
  std::vector<double> again_;        // by step
  std::vector<int32_t> good_until_;  // by step
  std::vector<char> stale_;          // steps of which these two are to be added up anew
  std::vector<int32_t> residents_;
  std::vector<size_t> place_;    // of a buffer among them
  std::vector<int32_t> wanted_;  // a heap of steps whose demand may have changed
  std::vector<int32_t> open_;
};

// What is needed again is counted once here, though for each of its readers in the result: enough
// to see soon that it is too much.
bool Outlook::add_up(int32_t step, double most) {
  if (!stale_[at(step)]) return again_[at(step)] <= most;
  stale_[at(step)] = false;
  open_.assign(1, step);
  double sum = 0;
  for (size_t i = 0; i < open_.size() && sum <= most; ++i) {
    sum += f_.costs[at(open_[i])];
    for (int32_t b : f_.reads(at(open_[i]))) {
      const int32_t p = resident_[at(b)] ? -1 : f_.producer[at(b)];
      if (p >= 0 && std::exchange(stale_[at(p)], false)) open_.push_back(p);
    }
  }
  if (sum > most) {
    for (int32_t s : open_) stale_[at(s)] = true;
    return false;
  }
  std::sort(open_.begin(), open_.end());  // what is read comes before what reads it
  for (int32_t s : open_) refresh_cost(at(s));
  return true;
}

class Rehearsal {
 public:
  Rehearsal(const Facts& facts, const Way& way, double most)
      : f_(facts),
        work_(facts.work),
        outlook_(facts),
        limit_(way.room),
        distance_(way.weights.distance),
        most_(most),
        reluctance_(way.reluctance) {
    pins_.assign(work_.bytes.size(), 0);
    for (const int64_t bytes : work_.bytes)
      size_.push_back(std::pow(static_cast<double>(bytes), way.weights.bytes));
  }

  // Whether the steps fit.
  bool run() {
    for (now_ = 0; now_ < static_cast<int32_t>(work_.steps.size()); ++now_) {
      if (!run_step(now_)) return false;
      outlook_.past(now_);
    }
    return true;
  }
  Sequence take() { return std::move(sequence_); }

 private:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  struct Begun {
    int32_t step;
    size_t read;  // the next one to be made resident
  };

  // Makes everything that the step reads resident, finds room, runs it. Chains may be long: what is
  // under way is a list, not calls within calls.
  bool run_step(int32_t s) {
    begin(s);
    while (!under_way_.empty()) {
      const Begun top = under_way_.back();
      const std::vector<int32_t>& reads = work_.steps[at(top.step)].reads;
      if (top.read == reads.size()) {
        if (!finish(top.step)) return false;
        under_way_.pop_back();
        continue;
      }
      ++under_way_.back().read;
      const int32_t b = reads[top.read];
      if (outlook_.resident(b)) continue;
      const int32_t p = f_.producer[at(b)];
      if (p < 0 || f_.until[at(p)] <= now_) return false;
      begin(p);
    }
    return true;
  }

  void begin(int32_t s) {
    for (int32_t b : work_.steps[at(s)].reads) ++pins_[at(b)];
    under_way_.push_back({s, 0});
  }

  // All that the step reads is there.
  bool finish(int32_t s) {
    const Work& w = work_.steps[at(s)];
    if (!make_room(s)) return false;
    for (int32_t b : w.reads) --pins_[at(b)];
    for (int32_t b : w.writes) outlook_.enter(b);
    if (s == now_) outlook_.ran(s);
    for (const auto& [from, to] : taken_) outlook_.leave(from);
    sequence_.push_back(s);
    cost_ += w.cost;
    return cost_ <= most_ && sequence_.size() <= kLongest * work_.steps.size();
  }

  // Bytes that the step adds; `taken_` gets the reads whose bytes its writes take over.
  int64_t added(const Work& w, int32_t s) {
    taken_.clear();
    int64_t bytes = w.scratch;
    for (int32_t b : w.writes)
      if (!outlook_.resident(b)) bytes += work_.bytes[at(b)];
    for (const MayShare m : w.may_share) {
      const int32_t from = w.reads[at(m.read)], to = w.writes[at(m.write)];
      if (pins_[at(from)] > 1 || outlook_.resident(to) ||
          work_.bytes[at(from)] < work_.bytes[at(to)] || needed_after(from, s))
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
    if (outlook_.used_after(b, s == now_ ? now_ : -1)) return true;
    return outlook_.need(b) != kNever && outlook_.need(b) > now_;
  }

  bool make_room(int32_t s) {
    const Work& w = work_.steps[at(s)];
    for (int32_t b : w.writes) ++pins_[at(b)];
    bool fits = true;
    while (outlook_.live() + added(w, s) > limit_) {
      if (drop_dead()) continue;
      const int32_t b = cheapest();
      if (b < 0) {
        fits = false;
        break;
      }
      outlook_.leave(b);
    }
    for (int32_t b : w.writes) --pins_[at(b)];
    return fits;
  }

  bool drop_dead() {
    dead_.clear();
    for (int32_t b : outlook_.residents())
      if (pins_[at(b)] == 0 && outlook_.need(b) == kNever) dead_.push_back(b);
    for (int32_t b : dead_) outlook_.leave(b);
    return !dead_.empty();
  }

  double far(int32_t steps) const {
    if (distance_ == 1) return steps;
    return distance_ == 0 ? 1 : std::pow(static_cast<double>(steps), distance_);
  }

  int32_t cheapest() {
    int32_t best = -1;
    double best_value = std::numeric_limits<double>::infinity();
    for (int32_t b : outlook_.residents()) {
      const int32_t p = f_.producer[at(b)];
      if (pins_[at(b)] > 0 || p < 0 || work_.bytes[at(b)] == 0) continue;
      const double reluctance = reluctance_.empty() ? 1 : static_cast<double>(reluctance_[at(b)]);
      const double gain = size_[at(b)] * far(outlook_.need(b) - now_ + 1);
      constexpr double kRounding = 1 + 1e-9;
      if (!outlook_.add_up(p, best_value * gain / reluctance * kRounding)) continue;
      if (outlook_.good_until(p) <= outlook_.need(b)) continue;
      const double value = reluctance * outlook_.again(p) / gain;
      if (best >= 0 && (value > best_value || (value == best_value && b > best))) continue;
      best = b;
      best_value = value;
    }
    return best;
  }

  const Facts& f_;
  const WorkList& work_;
  Outlook outlook_;
  const int64_t limit_;
  const double distance_;
  const double most_;
  const std::span<const float> reluctance_;
  int32_t now_ = 0;
  double cost_ = 0;
  Sequence sequence_;
  std::vector<Begun> under_way_;  // each waits for the one after it
  std::vector<int> pins_;
  std::vector<double> size_;  // bytes, weighted
  std::vector<std::pair<int32_t, int32_t>> taken_;
  std::vector<int32_t> dead_;
};

}  // namespace

bool rehearse(const Facts& facts, const Way& way, double most, Sequence& runs) {
  Rehearsal rehearsal(facts, way, most);
  if (!rehearsal.run()) return false;
  runs = rehearsal.take();
  return true;
}

}  // namespace hone
