// SPDX-License-Identifier: Apache-2.0
// The recursion of Revolve (Griewank and Walther, "Algorithm 799", 2000) for steps of any cost and
// results of any size, as in rotor (Beaumont et al., "Optimal checkpointing for heterogeneous
// chains", 2019). To go from a result that is kept to a later one and back: run to the first result
// that is kept on the way, go from that one to the end and back, read it, give it up, and do the
// same with what lies before it. With one result kept from each moment on there is nothing else to
// choose. Memory is counted in units so that amounts can be compared.
#include "core/plan/chain.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace hone {

namespace {

constexpr size_t kMostStages = 300;  // the recursion is as deep
constexpr double kImpossible = std::numeric_limits<double>::infinity();

size_t at(int64_t i) { return static_cast<size_t>(i); }

class Chain {
 public:
  Chain(const WorkList& work, int64_t limit) : work_(work), limit_(limit) {}

  std::optional<Sequence> run() {
    find_links();
    // The first gradients may look like links, too.
    constexpr int kTries = 8;
    bool found = false;
    for (int i = 0; i < kTries && links_ > 1 && !(found = find_stages()); ++i) drop_link();
    if (!found) return std::nullopt;
    measure();
    const int32_t last = static_cast<int32_t>(stages_.size()) - 1;
    if (last < 1 || !(cost(0, last, units_, true) < kImpossible)) return std::nullopt;
    emit(0, last, units_, true);
    for (int32_t t = stages_[0].until; t < static_cast<int32_t>(work_.steps.size()); ++t)
      out_.push_back(t);
    return std::move(out_);
  }

 private:
  // A result that later steps read, from step `from` until before step `until`. Number 0 is what
  // comes before the first link.
  struct Stage {
    int32_t link = -1;
    int32_t from = 0, until = 0;
    int64_t bytes = 0;       // in units once measured, as what follows
    int64_t while_read = 0;  // the most that is in use meanwhile, itself included
    int64_t before = 0;      // what is in use beside the chain when it may be computed again
  };

  void find_links() {
    std::vector<int> writers(work_.bytes.size(), 0);
    for (const Work& w : work_.steps)
      for (int32_t b : w.writes) ++writers[at(b)];
    link_of_.assign(work_.bytes.size(), -1);
    for (const Work& w : work_.steps) {
      const bool follows = links_ == 0
                               ? w.reads.empty()
                               : w.reads.size() == 1 && link_of_[at(w.reads[0])] == links_ - 1;
      if (!follows || !w.repeatable || w.writes.size() != 1 || writers[at(w.writes[0])] != 1) break;
      link_of_[at(w.writes[0])] = links_++;
    }
  }

  void drop_link() { link_of_[at(work_.steps[at(--links_)].writes[0])] = -1; }

  // Whether the steps behind the chain read one result after the other, the last ones first.
  bool find_stages() {
    const int32_t count = static_cast<int32_t>(work_.steps.size());
    std::vector<Stage> found;
    for (int32_t t = links_; t < count; ++t)
      for (int32_t b : work_.steps[at(t)].reads) {
        const int32_t link = link_of_[at(b)];
        if (link < 0) continue;
        if (found.empty() || link < found.back().link)
          found.push_back({link, t, t + 1, work_.bytes[at(b)]});
        else if (link > found.back().link)
          return false;
        found.back().until = t + 1;
      }
    // What one step reads of two stages would have to be there at once.
    for (size_t i = 1; i < found.size(); ++i)
      if (found[i].from < found[i - 1].until) return false;
    stages_.assign(1, {-1, count, found.empty() ? links_ : found.back().until});
    stages_.insert(stages_.end(), found.rbegin(), found.rend());
    return stages_.size() > 1 && stages_.size() <= kMostStages;
  }

  int64_t in_units(int64_t bytes) const { return (bytes + unit_ - 1) / unit_; }

  void measure() {
    constexpr int64_t kUnits = 512;
    unit_ = limit_;
    for (int64_t b : work_.bytes) unit_ = std::gcd(unit_, b);
    for (const Work& w : work_.steps) unit_ = std::gcd(unit_, w.scratch);
    unit_ = std::max<int64_t>({unit_, limit_ / kUnits, 1});
    units_ = limit_ / unit_;
    // Bytes in use beside the chain, at each step and between it and the one before.
    const size_t count = work_.steps.size();
    const Timeline t = follow(work_, once_each(work_));
    std::vector<int64_t> live(count + 1, 0), across(count + 1, 0);
    for (const Instance& i : t.instances) {
      if (link_of_[at(i.buffer)] >= 0 || i.shares >= 0) continue;
      const int64_t bytes = work_.bytes[at(i.buffer)];
      live[at(i.first)] += bytes, live[at(i.last) + 1] -= bytes;
      across[at(i.first) + 1] += bytes, across[at(i.last) + 1] -= bytes;
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    std::partial_sum(across.begin(), across.end(), across.begin());
    for (size_t s = 1; s < stages_.size(); ++s) {
      Stage& stage = stages_[s];
      const int32_t begin = s + 1 < stages_.size() ? stages_[s + 1].until : links_;
      int64_t most = 0;
      for (int32_t k = begin; k < stage.until; ++k)
        most = std::max(
            most, live[at(k)] + work_.steps[at(k)].scratch + (k >= stage.from ? stage.bytes : 0));
      stage.while_read = in_units(most);
      stage.before = in_units(across[at(stage.from)]);
      stage.bytes = in_units(stage.bytes);
    }
    sums_.assign(1, 0);
    for (int32_t i = 0; i < links_; ++i) sums_.push_back(sums_.back() + work_.steps[at(i)].cost);
  }

  // The most that running from behind stage `begin` to stage `kept` has in use.
  int64_t transient(int32_t begin, int32_t kept) const {
    int64_t most = 0, previous = 0;
    for (int32_t i = stages_[at(begin)].link + 1; i <= stages_[at(kept)].link; ++i) {
      const Work& w = work_.steps[at(i)];
      const int64_t own = work_.bytes[at(w.writes[0])];
      most = std::max(most, previous + own + w.scratch);
      previous = own;
    }
    return in_units(most);
  }

  struct Best {
    double cost = kImpossible;
    int32_t kept = -1;
  };

  // Of the forward steps that it takes to go through stages (begin, end] from the last to the
  // first. Stage `begin` is kept and not counted in `room`. `first`: nothing has been read yet.
  double cost(int32_t begin, int32_t end, int64_t room, bool first) {
    return best(begin, end, room, first).cost;
  }

  Best best(int32_t begin, int32_t end, int64_t room, bool first) {
    if (begin == end) return {0, -1};
    const uint64_t key = ((static_cast<uint64_t>(begin) << 20 | static_cast<uint64_t>(end)) << 20 |
                          static_cast<uint64_t>(room))
                             << 1 |
                         static_cast<uint64_t>(first);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Best found;
    const int64_t beside = first ? 0 : stages_[at(end)].before;
    for (int32_t kept = begin + 1; kept <= end && visits_ > 0; ++kept) {
      --visits_;
      const Stage& stage = stages_[at(kept)];
      if (stage.while_read > room) continue;
      if (beside + transient(begin, kept) > room) break;
      const double there = sums_[at(stage.link + 1)] - sums_[at(stages_[at(begin)].link + 1)];
      if (there >= found.cost) break;
      const double rest = cost(kept, end, room - stage.bytes, first);
      if (there + rest >= found.cost) continue;
      const double all = there + rest + cost(begin, kept - 1, room, false);
      if (all < found.cost) found = {all, kept};
    }
    return known_[key] = found;
  }

  void emit(int32_t begin, int32_t end, int64_t room, bool first) {
    while (begin != end) {
      const int32_t kept = best(begin, end, room, first).kept;
      for (int32_t i = stages_[at(begin)].link + 1; i <= stages_[at(kept)].link; ++i)
        out_.push_back(i);
      if (first && kept == static_cast<int32_t>(stages_.size()) - 1)
        for (int32_t i = stages_[at(kept)].link + 1; i < links_; ++i) out_.push_back(i);
      emit(kept, end, room - stages_[at(kept)].bytes, first);
      const int32_t from = at(kept) + 1 < stages_.size() ? stages_[at(kept) + 1].until : links_;
      for (int32_t t = from; t < stages_[at(kept)].until; ++t) out_.push_back(t);
      end = kept - 1;
      first = false;
    }
  }

  const WorkList& work_;
  const int64_t limit_;
  int32_t links_ = 0;             // the first steps
  std::vector<int32_t> link_of_;  // by buffer: the link that makes it, or -1
  std::vector<Stage> stages_;
  std::vector<double> sums_;  // cost of the links before each
  int64_t unit_ = 1, units_ = 0;
  int64_t visits_ = 500'000;
  std::unordered_map<uint64_t, Best> known_;
  Sequence out_;
};

}  // namespace

std::optional<Sequence> chain_within(const WorkList& work, int64_t limit) {
  std::optional<Sequence> found = Chain(work, limit).run();
  if (found && !is_valid(work, *found)) found.reset();
  return found;
}

}  // namespace hone
