// SPDX-License-Identifier: Apache-2.0
// Depth-first search for a packing below a capacity.
//
// Picture time from left to right and offsets upwards. Each moment has a floor; unplaced buffers go
// above it. In any packing, buffers can sink until each stands on offset 0 or on another buffer, so
// only such packings are looked for. A niche is a run of moments with equal floors between higher
// neighbours. Take a moment of a niche: the lowest unplaced buffer there either stands on the
// niche's floor, and then lies wholly within the niche, or nothing stands on the floor there, and
// then the floor of this moment may be raised to the next height at which a buffer can start. These
// choices exclude each other and leave nothing out, whichever niche and moment is taken; the one
// with the fewest choices is. Where live bytes reach the capacity no gap is affordable, and the
// choices are few: this is what makes tight instances tractable.
//
// What cuts the tree: a moment's floor rises to the lowest offset any unplaced buffer can have
// there; floor plus unplaced bytes must stay below the capacity; unplaced buffers that fall into
// groups without a common moment are solved group by group; states that failed are remembered.
//
// Sections of time, lowest offsets as floors and splitting in time are from Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023). It
// branches over all buffers in order of offset; branching at one moment of one niche, and
// remembering failures, need far fewer nodes.
#include "core/plan/packing_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace hone {

namespace {

constexpr int64_t kNone64 = std::numeric_limits<int64_t>::max();

// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

size_t at(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

PackingSearch::PackingSearch(std::span<const PackedItem> items, int32_t moments, size_t slots)
    : items_(items), moments_(moments), failed_(slots, 0) {
  const size_t m = at(moments);
  total_.assign(m, 0);
  for (const PackedItem& i : items)
    for (int32_t t = i.begin; t < i.end; ++t) total_[at(t)] += i.size;
  offset_.assign(items.size(), 0);
  order_.resize(items.size());
  std::iota(order_.begin(), order_.end(), 0);
  lowest_.resize(m);
  niche_.resize(m);
  starts_.resize(m + 1);
  crossing_.resize(m + 1);
}

Fits PackingSearch::run(int64_t capacity, std::span<const int32_t> rank, int64_t max_nodes,
                        const std::function<bool()>& keep_going) {
  constexpr int64_t kWorkBetweenQuestions = 1 << 20;
  capacity_ = capacity;
  rank_ = rank;
  floor_.assign(at(moments_), 0);
  unplaced_ = total_;
  trail_.clear(), placed_.clear(), frames_.clear(), choices_.clear(), parts_.clear();

  // The outermost frame has one choice, already made: its parts are what is independent from the
  // start.
  Frame root;
  root.part = {0, static_cast<int32_t>(items_.size()), 0, moments_};
  if (!settle(root.part)) return Fits::no;
  split(root.part);
  frames_.push_back(root);
  int64_t ask_at = work_ + kWorkBetweenQuestions;
  for (int64_t nodes = 0;;) {
    Frame& f = frames_.back();
    bool alive = true;
    if (f.next_part < parts_.size()) {
      if (++nodes > max_nodes) return Fits::unknown;
      if (work_ > ask_at) {
        if (!keep_going()) return Fits::unknown;
        ask_at = work_ + kWorkBetweenQuestions;
      }
      const Part part = parts_[f.next_part++];
      alive = open(part);
    } else {  // every part is solved, so this frame's is
      if (frames_.size() == 1) return Fits::yes;
      close(f);
      continue;
    }
    // Back to the last frame with a choice left. Parts solved beside the one that failed are
    // undone with the choice that made them: they are independent, another packing of them cannot
    // help.
    while (!alive) {
      Frame& top = frames_.back();
      if (frames_.size() == 1) return Fits::no;
      undo(top);
      alive = choose(top);
      if (alive) break;
      failed_[top.key & (failed_.size() - 1)] = top.key;
      close(top);
    }
  }
}

// Starts on a part: false when it is known to fail. Its first choice is made.
bool PackingSearch::open(const Part& part) {
  Frame f;
  f.part = part;
  f.key = key_of(part);
  if (failed_[f.key & (failed_.size() - 1)] == f.key) return false;
  find_niches(part);
  f.moment = best_moment(part);
  f.gap_to = next_height(part, f.moment);
  f.choices = f.next_choice = choices_.size();
  f.parts = f.next_part = parts_.size();
  f.trail = trail_.size();
  f.placed = placed_.size();
  const int64_t height = floor_[at(f.moment)];
  for (int32_t k = part.first; k < part.last; ++k) {
    const int32_t i = order_[at(k)];
    if (covers(i, f.moment) && offset_[at(i)] == height) choices_.push_back(i);
  }
  const auto first = choices_.begin() + static_cast<int64_t>(f.choices);
  std::sort(first, choices_.end(),
            [&](int32_t a, int32_t b) { return rank_[at(a)] < rank_[at(b)]; });
  // Of buffers that are alike, one stands for all.
  const auto alike = [&](int32_t a, int32_t b) {
    return item(a).size == item(b).size && item(a).begin == item(b).begin &&
           item(a).end == item(b).end;
  };
  auto kept = first;
  for (auto it = first; it != choices_.end(); ++it)
    if (std::none_of(first, kept, [&](int32_t o) { return alike(o, *it); })) *kept++ = *it;
  choices_.erase(kept, choices_.end());
  if (f.gap_to < kNone64 && f.gap_to + unplaced_[at(f.moment)] <= capacity_)
    choices_.push_back(kGap);
  frames_.push_back(f);
  if (choose(frames_.back())) return true;
  failed_[f.key & (failed_.size() - 1)] = f.key;
  close(frames_.back());
  return false;
}

// Makes the next choice that does not fail at once; false when none is left.
bool PackingSearch::choose(Frame& f) {
  while (f.next_choice < choices_.size()) {
    const int32_t i = choices_[f.next_choice++];
    Part rest = f.part;
    if (i == kGap) {
      raise(f.moment, f.gap_to);
    } else {
      place(i, floor_[at(f.moment)]);
      const auto first = order_.begin() + rest.first, last = order_.begin() + rest.last;
      std::iter_swap(std::find(first, last, i), last - 1);
      --rest.last;
    }
    if (settle(rest)) {
      split(rest);
      return true;
    }
    undo(f);
  }
  return false;
}

// Lowest possible offsets of the unplaced items, and floors that follow; false when a moment's
// unplaced bytes no longer fit.
bool PackingSearch::settle(const Part& part) {
  std::fill(lowest_.begin() + part.begin, lowest_.begin() + part.end, kNone64);
  for (int32_t k = part.first; k < part.last; ++k) {
    const int32_t i = order_[at(k)];
    const auto floors = floor_.begin();
    const int64_t low = *std::max_element(floors + item(i).begin, floors + item(i).end);
    offset_[at(i)] = low;
    for (int32_t t = item(i).begin; t < item(i).end; ++t)
      lowest_[at(t)] = std::min(lowest_[at(t)], low);
    work_ += item(i).end - item(i).begin;
  }
  work_ += part.end - part.begin;
  for (int32_t t = part.begin; t < part.end; ++t) {
    if (unplaced_[at(t)] == 0) continue;
    raise(t, lowest_[at(t)]);
    if (floor_[at(t)] + unplaced_[at(t)] > capacity_) return false;
  }
  return true;
}

// Appends to parts_ the groups of unplaced items that share no moment, small ones first: they fail
// soonest.
void PackingSearch::split(const Part& part) {
  std::fill(crossing_.begin() + part.begin, crossing_.begin() + part.end + 1, 0);
  for (int32_t k = part.first; k < part.last; ++k) {
    const PackedItem& i = item(order_[at(k)]);
    ++crossing_[at(i.begin + 1)];  // from one moment of the item to the next
    --crossing_[at(i.end)];
  }
  const size_t first = parts_.size();
  int32_t across = 0, begin = -1;
  for (int32_t t = part.begin; t <= part.end; ++t) {
    across += crossing_[at(t)];
    if (begin >= 0 && across == 0) {
      parts_.push_back({part.first, part.last, begin, t});
      begin = -1;
    }
    if (begin < 0 && t < part.end && unplaced_[at(t)] > 0) begin = t;
  }
  if (parts_.size() - first < 2) return;
  std::sort(order_.begin() + part.first, order_.begin() + part.last, [&](int32_t a, int32_t b) {
    return item(a).begin != item(b).begin ? item(a).begin < item(b).begin : a < b;
  });
  int32_t k = part.first;
  for (size_t p = first; p < parts_.size(); ++p) {
    parts_[p].first = k;
    while (k < part.last && item(order_[at(k)]).begin < parts_[p].end) ++k;
    parts_[p].last = k;
  }
  std::stable_sort(
      parts_.begin() + static_cast<int64_t>(first), parts_.end(),
      [](const Part& a, const Part& b) { return a.last - a.first < b.last - b.first; });
}

// Numbers the runs of equal floors in niche_. For each niche, gap_cost_ is the least that a gap on
// its floor may be high; for a run with a lower neighbour it is negative. starts_ becomes the
// number of choices at each moment.
void PackingSearch::find_niches(const Part& part) {
  gap_cost_.clear();
  for (int32_t t = part.begin; t < part.end;) {
    const int64_t height = floor_[at(t)];
    const int64_t left = t == part.begin ? kNone64 : floor_[at(t - 1)];
    const int32_t begin = t;
    while (t < part.end && floor_[at(t)] == height)
      niche_[at(t++)] = static_cast<int32_t>(gap_cost_.size());
    const int64_t right = t == part.end ? kNone64 : floor_[at(t)];
    const bool niche = left > height && right > height;
    gap_cost_.push_back(niche ? std::min(left, right) - height : -1);
    std::fill(starts_.begin() + begin, starts_.begin() + t, 0);
  }
  starts_[at(part.end)] = 0;
  for (int32_t k = part.first; k < part.last; ++k) {
    const PackedItem& i = item(order_[at(k)]);
    const int32_t n = niche_[at(i.begin)];
    int64_t& cost = gap_cost_[at(n)];
    if (n != niche_[at(i.end - 1)] || cost < 0) continue;
    cost = std::min(cost, i.size);
    ++starts_[at(i.begin)];
    --starts_[at(i.end)];
  }
  std::partial_sum(starts_.begin() + part.begin, starts_.begin() + part.end,
                   starts_.begin() + part.begin);
  work_ += part.end - part.begin + part.last - part.first;
}

// The moment of a niche with the fewest choices, and of those the one with the least to waste.
int32_t PackingSearch::best_moment(const Part& part) const {
  int32_t best = -1, fewest = 0;
  int64_t least = 0;
  for (int32_t t = part.begin; t < part.end; ++t) {
    const int64_t cost = gap_cost_[at(niche_[at(t)])];
    if (cost < 0) continue;
    const int64_t spare = capacity_ - floor_[at(t)] - unplaced_[at(t)];
    const int32_t choices = starts_[at(t)] + (cost <= spare ? 1 : 0);
    if (best >= 0 && (choices > fewest || (choices == fewest && spare >= least))) continue;
    best = t, fewest = choices, least = spare;
  }
  return best;
}

// The least offset an item can have at `moment` if none stands on the floor there. One that could
// stand on the floor must then stand on another item, which is not live at `moment` or is itself
// subject to this bound.
int64_t PackingSearch::next_height(const Part& part, int32_t moment) {
  const int64_t height = floor_[at(moment)];
  int64_t next = kNone64;
  for (int32_t k = part.first; k < part.last; ++k) {
    const int32_t i = order_[at(k)];
    if (!covers(i, moment)) continue;
    if (offset_[at(i)] > height) {
      next = std::min(next, offset_[at(i)]);
      continue;
    }
    work_ += part.last - part.first;
    for (int32_t j = part.first; j < part.last; ++j) {
      const int32_t under = order_[at(j)];
      if (covers(under, moment) || item(under).begin >= item(i).end ||
          item(i).begin >= item(under).end)
        continue;
      next = std::min(next, offset_[at(under)] + item(under).size);
    }
  }
  return next;
}

// A number for the state of a part: which items are unplaced, above which floors. Two states with
// one number would make the search miss a packing; with 64 bits that is not a practical concern.
uint64_t PackingSearch::key_of(const Part& part) const {
  uint64_t items = 0;
  for (int32_t k = part.first; k < part.last; ++k)
    items += mix(static_cast<uint64_t>(order_[at(k)]));
  uint64_t key = mix(items ^ static_cast<uint64_t>(capacity_));
  for (int32_t t = part.begin; t < part.end; ++t)
    key = mix(key ^ static_cast<uint64_t>(floor_[at(t)]));
  return key | 1;  // never that of an empty slot
}

void PackingSearch::place(int32_t i, int64_t offset) {
  offset_[at(i)] = offset;
  placed_.push_back(i);
  for (int32_t t = item(i).begin; t < item(i).end; ++t) {
    raise(t, offset + item(i).size);
    unplaced_[at(t)] -= item(i).size;
  }
}

void PackingSearch::raise(int32_t moment, int64_t floor) {
  if (floor == floor_[at(moment)]) return;
  trail_.push_back({moment, floor_[at(moment)]});
  floor_[at(moment)] = floor;
}

// Takes back the choice of the last frame and all that followed from it.
void PackingSearch::undo(Frame& f) {
  for (; trail_.size() > f.trail; trail_.pop_back())
    floor_[at(trail_.back().moment)] = trail_.back().floor;
  for (; placed_.size() > f.placed; placed_.pop_back()) {
    const PackedItem& i = item(placed_.back());
    for (int32_t t = i.begin; t < i.end; ++t) unplaced_[at(t)] += i.size;
  }
  parts_.resize(f.parts);
  f.next_part = f.parts;
}

void PackingSearch::close(Frame& f) {
  choices_.resize(f.choices);
  parts_.resize(f.parts);
  frames_.pop_back();
}

}  // namespace hone
