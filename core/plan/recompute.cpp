// SPDX-License-Identifier: Apache-2.0
// Recomputation by rehearsal: the steps are gone through in order with the limit as the memory
// there is. Where it does not suffice, the buffer that is cheapest to miss is given up, and
// computed again when it is read next, from what is left by then. What "cheapest" means is the time
// to compute it again over its bytes and over how long they stay free: the rule of Kirisame et al.,
// "Dynamic Tensor Rematerialization" (2021), with the distance to the next use, which is known
// here, in the place of the time since the last one. Several weightings are tried; of each result
// every second run is then taken out again where the limit allows it.
#include "core/plan/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone {

namespace {

constexpr size_t kLongest = 4;  // runs for each step, on average
constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

// How a buffer's bytes and the distance to its next use count.
struct Weights {
  double bytes = 1, distance = 1;
};

// What stays the same from one rehearsal to the next.
struct Facts {
  explicit Facts(const WorkList& list) : work(list) {
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
  static size_t index(int32_t i) { return static_cast<size_t>(i); }
  std::span<const int32_t> reads(size_t s) const {
    return {operands.data() + first[s], writes_at[s] - first[s]};
  }
  std::span<const int32_t> writes(size_t s) const {
    return {operands.data() + writes_at[s], first[s + 1] - writes_at[s]};
  }

  const WorkList& work;
  // Reads and writes of all steps one after the other: rehearsals go through them again and again.
  std::vector<int32_t> operands;
  std::vector<size_t> first, writes_at;  // by step
  std::vector<double> costs;
  std::vector<int32_t> producer;           // the step that can write it again, or -1
  std::vector<std::vector<int32_t>> uses;  // steps that read a buffer, in order
  std::vector<int32_t> until;  // the step before which the last run of a step must have come
  double total = 0;
};

class Rehearsal {
 public:
  /// `reluctance` multiplies what giving up a buffer is taken to cost.
  Rehearsal(const Facts& facts, int64_t limit, Weights weights, double most,
            std::span<const float> reluctance = {})
      : f_(facts),
        work_(facts.work),
        limit_(limit),
        weights_(weights),
        most_(most),
        reluctance_(reluctance) {
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

// Takes out runs whose results nobody reads before they are written again. What is left of a step
// that is run once may come later than before: free of cost.
void drop_unread(const WorkList& work, std::span<const int32_t> sequence, std::vector<char>& kept) {
  std::vector<int> runs(work.steps.size(), 0);
  for (size_t p = 0; p < sequence.size(); ++p)
    if (kept[p]) ++runs[static_cast<size_t>(sequence[p])];
  std::vector<char> read(work.bytes.size(), 0);
  for (size_t p = sequence.size(); p-- > 0;) {
    if (!kept[p]) continue;
    const size_t s = static_cast<size_t>(sequence[p]);
    const Work& w = work.steps[s];
    const bool wanted = std::any_of(w.writes.begin(), w.writes.end(),
                                    [&](int32_t b) { return read[static_cast<size_t>(b)] != 0; });
    if (!wanted && w.repeatable && runs[s] > 1) {
      --runs[s];
      kept[p] = 0;
      continue;
    }
    if (w.repeatable)
      for (int32_t b : w.writes) read[static_cast<size_t>(b)] = 0;
    for (int32_t b : w.reads) read[static_cast<size_t>(b)] = 1;
  }
}

void gather(const Sequence& sequence, const std::vector<char>& kept, Sequence& out) {
  out.clear();
  for (size_t p = 0; p < sequence.size(); ++p)
    if (kept[p]) out.push_back(sequence[p]);
}

// Takes second runs out while the peak stays within the limit, the dearest first.
void improve(const WorkList& work, int64_t limit, int trials, Recomputation& best) {
  const Sequence all = best.sequence;
  std::vector<int> runs(work.steps.size(), 0);
  for (int32_t s : all) ++runs[static_cast<size_t>(s)];
  std::vector<size_t> repeated;
  for (size_t p = 0; p < all.size(); ++p)
    if (runs[static_cast<size_t>(all[p])] > 1) repeated.push_back(p);
  std::stable_sort(repeated.begin(), repeated.end(), [&](size_t a, size_t b) {
    return work.steps[static_cast<size_t>(all[a])].cost >
           work.steps[static_cast<size_t>(all[b])].cost;
  });
  std::vector<char> kept(all.size(), 1), trial_kept;
  Sequence trial;
  Timeline t;
  for (bool better = true; better;) {
    better = false;
    for (size_t p : repeated) {
      if (!kept[p]) continue;
      if (trials-- <= 0) return;
      trial_kept = kept;
      trial_kept[p] = 0;
      drop_unread(work, all, trial_kept);
      gather(all, trial_kept, trial);
      if (!is_valid(work, trial)) continue;
      follow(work, trial, t);
      if (t.peak > limit || t.cost >= best.cost) continue;
      kept = trial_kept;
      best = {trial, t.peak, t.cost};
      better = true;
    }
  }
}

// One way to go through the steps.
struct Way {
  int64_t room = 0;  // what the rehearsal may use: a little more than the limit, as what it keeps
                     // to be safe may turn out not to be read
  Weights weights;
  std::vector<float> reluctance;
};

bool attempt(const Facts& facts, const Way& way, double most, Recomputation& out) {
  Rehearsal rehearsal(facts, way.room, way.weights, most, way.reluctance);
  if (!rehearsal.run()) return false;
  const Sequence runs = rehearsal.take();
  std::vector<char> kept(runs.size(), 1);
  drop_unread(facts.work, runs, kept);
  gather(runs, kept, out.sequence);
  const Timeline t = follow(facts.work, out.sequence);
  out.peak = t.peak;
  out.cost = t.cost;
  return true;
}

constexpr Weights kWeights[] = {{1, 1}, {1, 0.5}, {0.7, 1}, {1, 0}};
constexpr double kMargins[] = {0, 0.02, 0.06};

struct Found {
  Recomputation runs;
  Way way;
};

// Buffers that are computed again, each once, those of the dearest steps first.
std::vector<int32_t> given_up(const WorkList& work, const Sequence& sequence) {
  std::vector<int> runs(work.steps.size(), 0);
  for (int32_t s : sequence) ++runs[static_cast<size_t>(s)];
  std::vector<int32_t> steps;
  for (size_t s = 0; s < runs.size(); ++s)
    if (runs[s] > 1) steps.push_back(static_cast<int32_t>(s));
  const auto cost = [&](int32_t s) {
    return work.steps[static_cast<size_t>(s)].cost * (runs[static_cast<size_t>(s)] - 1);
  };
  std::stable_sort(steps.begin(), steps.end(),
                   [&](int32_t a, int32_t b) { return cost(a) > cost(b); });
  std::vector<int32_t> out;
  for (int32_t s : steps)
    out.insert(out.end(), work.steps[static_cast<size_t>(s)].writes.begin(),
               work.steps[static_cast<size_t>(s)].writes.end());
  return out;
}

// Goes through the steps again with one buffer less to give up, as long as that is cheaper.
void climb(const Facts& facts, int64_t limit, const RecomputeOptions& options, Found& best) {
  constexpr float kHardly = 1e6f;
  int rehearsals = static_cast<int>(options.effort / std::max<size_t>(1, facts.work.steps.size()));
  best.way.reluctance.assign(facts.work.bytes.size(), 1);
  for (bool better = true; better;) {
    better = false;
    for (int32_t b : given_up(facts.work, best.runs.sequence)) {
      if (best.way.reluctance[static_cast<size_t>(b)] != 1) continue;
      if (rehearsals-- <= 0) return;
      Found trial{{}, best.way};
      trial.way.reluctance[static_cast<size_t>(b)] = kHardly;
      if (!attempt(facts, trial.way, best.runs.cost * 1.2, trial.runs) || trial.runs.peak > limit)
        continue;
      improve(facts.work, limit, options.trials, trial.runs);
      if (trial.runs.cost >= best.runs.cost) continue;
      best = std::move(trial);
      better = true;
    }
  }
}

bool search(const Facts& facts, int64_t limit, const RecomputeOptions& options,
            Recomputation& best) {
  std::vector<Found> found;
  double most = options.excess * facts.total;
  // A rehearsal takes time with the square of the steps: very long programs get fewer.
  constexpr size_t kLong = 1500;
  const size_t times = std::max<size_t>(1, facts.work.steps.size() / kLong);
  int tries = std::max(2, options.tries / static_cast<int>(times));
  for (const double margin : kMargins)
    for (const Weights weights : kWeights) {
      if (tries-- <= 0) break;
      Found f;
      f.way = {limit + static_cast<int64_t>(margin * static_cast<double>(limit)), weights, {}};
      if (!attempt(facts, f.way, most, f.runs) || f.runs.peak > limit) continue;
      most = std::min(most, f.runs.cost * 1.1);
      found.push_back(std::move(f));
    }
  if (found.empty()) return false;
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.runs.cost < b.runs.cost; });
  const size_t improved = times > 1 ? 1 : static_cast<size_t>(options.improved);
  if (found.size() > improved) found.resize(improved);
  for (Found& f : found) improve(facts.work, limit, options.trials, f.runs);
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.runs.cost < b.runs.cost; });
  climb(facts, limit, options, found[0]);
  best = std::move(found[0].runs);
  return true;
}

}  // namespace

Result<Recomputation> recompute(const WorkList& work, int64_t limit,
                                const RecomputeOptions& options) {
  Recomputation plain{once_each(work), 0, 0};
  const Timeline t = follow(work, plain.sequence);
  plain.peak = t.peak;
  plain.cost = t.cost;
  if (plain.peak <= limit) return plain;
  Recomputation best;
  if (search(Facts(work), limit, options, best)) {
    HONE_ENSURE(is_valid(work, best.sequence));
    return best;
  }
  return Status(Code::out_of_memory,
                format("the steps do not fit into {} bytes; the smallest that was found is {}",
                       limit, smallest(work, options).peak));
}

Recomputation smallest(const WorkList& work, const RecomputeOptions& options) {
  const Facts facts(work);
  Recomputation best{once_each(work), 0, facts.total};
  best.peak = follow(work, best.sequence).peak;
  int64_t low = 0, high = best.peak;
  for (const Work& w : work.steps) {
    int64_t bytes = w.scratch;
    for (int32_t b : w.reads) bytes += work.bytes[static_cast<size_t>(b)];
    low = std::max(low, bytes);
  }
  const bool is_long = work.steps.size() > 3000;
  const int tried = is_long ? 1 : 2;  // of the weights
  while (high - low > std::max<int64_t>(64, high / (is_long ? 10 : 100))) {
    const int64_t middle = low + (high - low) / 2;
    Recomputation r;
    bool fits = false;
    for (int k = 0; k < tried && !fits; ++k)
      fits = attempt(facts, {middle, kWeights[k], {}}, options.excess * facts.total, r);
    if (!fits) {
      low = middle;
      continue;
    }
    if (r.peak < best.peak) best = std::move(r);
    high = std::min(middle, best.peak);
  }
  return best;
}

}  // namespace hone
