// SPDX-License-Identifier: Apache-2.0
// The arena planner: heuristics first, then a bounded search for what they left.
//
// A heuristic places buffers one by one, each at the lowest (or tightest) offset that is free
// during its whole life; what differs is the order. After Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference" (2020).
#include "core/plan/arena.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "core/plan/packing_search.hpp"

namespace hone {

namespace {

// Leaves room to add offsets and sizes without thought of overflow.
constexpr int64_t kMaxTotal = int64_t{1} << 60;

size_t at(int32_t i) { return static_cast<size_t>(i); }

// What is to be packed: buffers that need bytes, in moments instead of steps.
struct Problem {
  std::vector<PackedItem> items;
  std::vector<int32_t> ids;  // Of the items, among the lifetimes.
  int32_t moments = 0;
  int64_t bound = 0;
};

Status check(std::span<const Lifetime> lifetimes, int64_t alignment) {
  if (alignment < 1 || alignment > kMaxTotal)
    return invalid("arena: the alignment is {}, expected a positive number", alignment);
  int64_t total = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& v = lifetimes[i];
    if (v.bytes < 0) return invalid("arena buffer {}: its size is negative ({})", i, v.bytes);
    if (v.first < 0)
      return invalid("arena buffer {}: it is born at step {}, before the first", i, v.first);
    if (v.last < v.first)
      return invalid("arena buffer {}: it dies at step {} before step {}", i, v.last, v.first);
    if (v.bytes > kMaxTotal - alignment || (total += round_up(v.bytes, alignment)) > kMaxTotal)
      return invalid("arena buffer {}: with its {} bytes the buffers exceed 2^60 bytes", i,
                     v.bytes);
  }
  return {};
}

// A moment ends where a death follows a birth: the buffers live then are a largest set of buffers
// that are live together.
Problem pose(std::span<const Lifetime> lifetimes, int64_t alignment) {
  struct Event {
    int32_t step;
    bool death;  // Within a step, births come first: both ends are included.
    int32_t item;
  };
  Problem p;
  std::vector<Event> events;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes == 0) continue;
    const int32_t item = static_cast<int32_t>(p.items.size());
    p.items.push_back({round_up(lifetimes[i].bytes, alignment), 0, 0});
    p.ids.push_back(static_cast<int32_t>(i));
    events.push_back({lifetimes[i].first, false, item});
    events.push_back({lifetimes[i].last, true, item});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.step != b.step) return a.step < b.step;
    return a.death != b.death ? b.death : a.item < b.item;
  });
  int64_t live = 0;
  bool born = false;
  for (const Event& e : events) {
    PackedItem& item = p.items[at(e.item)];
    if (e.death) {
      if (born) ++p.moments;
      born = false;
      item.end = p.moments;
      live -= item.size;
    } else {
      born = true;
      item.begin = p.moments;
      live += item.size;
    }
    p.bound = std::max(p.bound, live);
  }
  return p;
}

enum class Fit : uint8_t { lowest, tightest };
enum class Key : uint8_t { size, area, duration, birth };

struct Heuristic {
  Key key;
  Fit fit;
  std::string_view name;
};
// Largest first: a big buffer placed late finds only the gaps that small ones left.
constexpr Heuristic kHeuristics[] = {
    {Key::size, Fit::tightest, "by size, tightest gap"},
    {Key::size, Fit::lowest, "by size, lowest gap"},
    {Key::area, Fit::tightest, "by size x duration, tightest gap"},
    {Key::duration, Fit::tightest, "by duration, tightest gap"},
    {Key::birth, Fit::lowest, "by birth, lowest gap"},
    {Key::birth, Fit::tightest, "by birth, tightest gap"},
};

// Larger goes first.
double weight(const PackedItem& i, Key key) {
  const double duration = i.end - i.begin, size = static_cast<double>(i.size);
  switch (key) {
    case Key::size:
      return size;
    case Key::area:
      return size * duration;
    case Key::duration:
      return duration;
    case Key::birth:
      return -i.begin;
  }
  return 0;
}

std::vector<int32_t> heaviest_first(const Problem& p, std::span<const double> weights) {
  std::vector<int32_t> order(p.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return weights[at(a)] != weights[at(b)] ? weights[at(a)] > weights[at(b)]
                                            : p.items[at(a)].size > p.items[at(b)].size;
  });
  return order;
}

struct Packing {
  std::vector<int64_t> offsets;  // Of the items.
  int64_t bytes = 0;
};

// Gives up, and leaves no offsets, once the arena would reach `limit`. Placed buffers are kept
// sorted by offset, so that the gaps between those that are live together with the new one are
// found in one walk.
Packing place(const Problem& p, std::span<const int32_t> order, Fit fit, int64_t limit) {
  struct Placed {
    int64_t offset, end;
    int32_t first, last;  // moments [first, last)
  };
  std::vector<Placed> placed;
  placed.reserve(order.size());
  Packing out;
  out.offsets.resize(order.size());
  for (int32_t i : order) {
    const PackedItem& v = p.items[at(i)];
    int64_t best = -1, best_gap = 0, end = 0;
    for (const Placed& o : placed) {
      if (v.begin >= o.last || o.first >= v.end) continue;
      const int64_t gap = o.offset - end;
      if (gap >= v.size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit == Fit::lowest || gap == v.size) break;
      }
      end = std::max(end, o.end);
    }
    const int64_t offset = best >= 0 ? best : end;
    out.offsets[at(i)] = offset;
    out.bytes = std::max(out.bytes, offset + v.size);
    if (out.bytes >= limit) return {{}, limit};
    const auto here =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](int64_t value, const Placed& o) { return value < o.offset; });
    placed.insert(here, {offset, offset + v.size, v.begin, v.end});
  }
  return out;
}

// Improves a plan by asking, again and again with another order of trying and another allowance,
// whether everything fits into fewer bytes. Hard instances are seldom hard for every order: many
// short tries find in moments what one long try misses.
class Improver {
 public:
  Improver(const Problem& problem, const PackingOptions& options, ArenaPlan& best)
      : problem_(problem),
        options_(options),
        best_(best),
        search_(problem.items, problem.moments, slots(options.max_work)) {
    for (const PackedItem& i : problem.items) grain_ = std::gcd(grain_, i.size);
    proved_ = problem.bound;
  }

  PackingEnd run() {
    const int64_t n = static_cast<int64_t>(problem_.items.size());
    const int64_t goal = std::max(options_.goal_bytes, problem_.bound);
    for (int32_t attempt = 0; best_.bytes > goal; ++attempt) {
      const int64_t capacity = aim(attempt, goal);
      make_rank(attempt);
      const Fits fits = search_.run(capacity, rank_, (2 * n + 500) * luby(attempt + 1),
                                    [this] { return keep_going(); });
      best_.work = search_.work();
      if (fits == Fits::yes) accept();
      if (fits == Fits::no) proved_ = std::max(proved_, capacity + grain_);
      if (proved_ >= best_.bytes) break;
      if (!keep_going()) break;
    }
    best_.work = search_.work();
    if (best_.bytes <= problem_.bound) return PackingEnd::at_bound;
    if (proved_ >= best_.bytes) return PackingEnd::proved;
    if (best_.bytes <= goal) return PackingEnd::at_goal;
    return cancelled_ ? PackingEnd::cancelled : PackingEnd::out_of_work;
  }

 private:
  // 8 bytes each, in proportion to what there may be to remember.
  static size_t slots(int64_t max_work) {
    size_t n = size_t{1} << 12;
    while (n < size_t{1} << 20 && static_cast<int64_t>(n) < max_work / 1024) n *= 2;
    return n;
  }

  // 1, 1, 2, 1, 1, 2, 4, 1, ...: within a factor of the best series of allowances when nothing is
  // known about the search (Luby, Sinclair and Zuckerman, 1993).
  static int64_t luby(int64_t i) {
    int64_t power = 1;
    while (2 * power - 1 < i) power *= 2;
    return 2 * power - 1 == i ? power : luby(i - power + 1);
  }

  // Every other attempt asks for the goal; the others for less and less improvement, so that
  // something is found also when the goal cannot be had. An arena's size is a sum of sizes, hence
  // a multiple of the grain.
  int64_t aim(int32_t attempt, int64_t goal) const {
    const int64_t least = std::max(goal, proved_);
    const int64_t gain =
        attempt % 2 == 0 ? best_.bytes - least : (best_.bytes - least) >> (attempt / 2 % 4 + 1);
    return (best_.bytes - std::max(gain, grain_)) / grain_ * grain_;
  }

  // The first attempts try the weightiest first; later ones blur the weights.
  void make_rank(int32_t attempt) {
    constexpr Key kKeys[] = {Key::area, Key::duration, Key::size, Key::area};
    constexpr int32_t kPlain = 8;
    std::vector<double> weights;
    for (const PackedItem& i : problem_.items) {
      const double w = weight(i, kKeys[attempt / 2 % 4]);
      weights.push_back(attempt < kPlain ? w : w * (0.6 + random()));
    }
    const std::vector<int32_t> order = heaviest_first(problem_, weights);
    rank_.resize(order.size());
    for (size_t k = 0; k < order.size(); ++k) rank_[at(order[k])] = static_cast<int32_t>(k);
  }

  // In [0, 1). Xorshift (Marsaglia, 2003): the same everywhere, and good enough to break ties.
  double random() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

  bool keep_going() {
    if (search_.work() >= options_.max_work) return false;
    if (!cancelled_ && options_.keep_going) {
      best_.work = search_.work();
      cancelled_ = !options_.keep_going(best_);
    }
    return !cancelled_;
  }

  void accept() {
    best_.bytes = 0;
    best_.strategy = "search";
    for (size_t k = 0; k < problem_.items.size(); ++k) {
      const int64_t offset = search_.offsets()[k];
      best_.offsets[at(problem_.ids[k])] = offset;
      best_.bytes = std::max(best_.bytes, offset + problem_.items[k].size);
    }
  }

  const Problem& problem_;
  const PackingOptions& options_;
  ArenaPlan& best_;
  PackingSearch search_;
  std::vector<int32_t> rank_;
  int64_t grain_ = 0, proved_ = 0;
  uint64_t state_ = 88172645463325252u;
  bool cancelled_ = false;
};

// One dive to a full packing costs about this; with less to spend the search cannot find any.
int64_t work_of_dive(const Problem& p) {
  int64_t visits = 0;
  for (const PackedItem& i : p.items) visits += i.end - i.begin;
  return visits / 2 * static_cast<int64_t>(p.items.size());
}

}  // namespace

// Goes through the births with what is live by its offset: only neighbours can overlap.
bool is_valid(const ArenaPlan& plan, std::span<const Lifetime> lifetimes, int64_t alignment) {
  if (plan.offsets.size() != lifetimes.size()) return false;
  std::vector<int32_t> births;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const int64_t begin = plan.offsets[i];
    if (begin < 0 || begin % alignment != 0 ||
        begin + round_up(lifetimes[i].bytes, alignment) > plan.bytes)
      return false;
    if (lifetimes[i].bytes > 0) births.push_back(static_cast<int32_t>(i));
  }
  std::vector<int32_t> deaths = births;
  std::sort(births.begin(), births.end(),
            [&](int32_t a, int32_t b) { return lifetimes[at(a)].first < lifetimes[at(b)].first; });
  std::sort(deaths.begin(), deaths.end(),
            [&](int32_t a, int32_t b) { return lifetimes[at(a)].last < lifetimes[at(b)].last; });
  std::map<int64_t, int64_t> live;  // ends by offset
  size_t dead = 0;
  for (int32_t i : births) {
    for (; lifetimes[at(deaths[dead])].last < lifetimes[at(i)].first; ++dead)
      live.erase(plan.offsets[at(deaths[dead])]);
    const int64_t begin = plan.offsets[at(i)];
    const int64_t end = begin + round_up(lifetimes[at(i)].bytes, alignment);
    const auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < end) return false;
    if (next != live.begin() && std::prev(next)->second > begin) return false;
    live.emplace_hint(next, begin, end);
  }
  return true;
}

Result<ArenaPlan> plan_arena(std::span<const Lifetime> lifetimes, const PackingOptions& options) {
  HONE_TRY(check(lifetimes, options.alignment));
  const Problem problem = pose(lifetimes, options.alignment);
  const int64_t goal = std::max(options.goal_bytes, problem.bound);
  ArenaPlan best;
  best.offsets.assign(lifetimes.size(), 0);
  best.lower_bound = problem.bound;
  best.bytes = kMaxTotal + 1;
  for (const Heuristic& h : kHeuristics) {
    if (best.bytes <= goal) break;
    std::vector<double> weights;
    for (const PackedItem& i : problem.items) weights.push_back(weight(i, h.key));
    const Packing packing = place(problem, heaviest_first(problem, weights), h.fit, best.bytes);
    if (packing.bytes >= best.bytes) continue;
    best.bytes = packing.bytes;
    best.strategy = h.name;
    for (size_t k = 0; k < problem.items.size(); ++k)
      best.offsets[at(problem.ids[k])] = packing.offsets[k];
  }
  best.end = best.bytes <= problem.bound ? PackingEnd::at_bound
             : best.bytes <= goal        ? PackingEnd::at_goal
                                         : PackingEnd::out_of_work;
  if (best.end == PackingEnd::out_of_work && work_of_dive(problem) <= options.max_work)
    best.end = Improver(problem, options, best).run();
  HONE_ENSURE(is_valid(best, lifetimes, options.alignment));
  return best;
}

}  // namespace hone
