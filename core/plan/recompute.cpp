// SPDX-License-Identifier: Apache-2.0
// Recomputation: several rehearsals of the steps (rehearsal.hpp), each with other weightings. Of
// the best results every second run is taken out again where the limit allows it, and the rehearsal
// is repeated with one buffer after the other held on to, as long as that is cheaper.
#include "core/plan/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/plan/chain.hpp"
#include "core/plan/rehearsal.hpp"

namespace hone {

namespace {

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
void improve(const WorkList& work, int64_t limit, int trials, const RecomputeOptions& options,
             Recomputation& best) {
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
      if (trials-- <= 0 || !options.goes_on()) return;
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

bool attempt(const Facts& facts, const Way& way, double most, Recomputation& out) {
  Sequence runs;
  if (!rehearse(facts, way, most, runs)) return false;
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
  if (best.way.reluctance.empty()) best.way.reluctance.assign(facts.work.bytes.size(), 1);
  for (bool better = true; better;) {
    better = false;
    for (int32_t b : given_up(facts.work, best.runs.sequence)) {
      if (best.way.reluctance[static_cast<size_t>(b)] >= kHardly) continue;
      if (rehearsals-- <= 0 || !options.goes_on()) return;
      Found trial{{}, best.way};
      trial.way.reluctance[static_cast<size_t>(b)] = kHardly;
      if (!attempt(facts, trial.way, best.runs.cost * 1.2, trial.runs) || trial.runs.peak > limit)
        continue;
      improve(facts.work, limit, options.trials, options, trial.runs);
      if (trial.runs.cost >= best.runs.cost) continue;
      best = std::move(trial);
      better = true;
    }
  }
}

std::vector<float> at_random(size_t count, std::mt19937& random) {
  std::vector<float> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(std::pow(3.0f, static_cast<float>(random()) * 0x1p-31f - 1));
  return out;
}

bool search(const Facts& facts, int64_t limit, const RecomputeOptions& options,
            Recomputation& best) {
  std::mt19937 random(options.seed);
  std::vector<Found> found;
  double most = options.excess * facts.total;
  // Very long programs get fewer.
  constexpr size_t kLong = 8000;
  const size_t times = std::max<size_t>(1, facts.work.steps.size() / kLong);
  int tries = std::max(2, options.tries / static_cast<int>(times));
  for (const double margin : kMargins)
    for (const Weights weights : kWeights) {
      if (tries-- <= 0) break;
      Found f;
      f.way = {limit + static_cast<int64_t>(margin * static_cast<double>(limit)), weights, {}};
      if (options.seed > 0) f.way.reluctance = at_random(facts.work.bytes.size(), random);
      if (!attempt(facts, f.way, most, f.runs) || f.runs.peak > limit) continue;
      most = std::min(most, f.runs.cost * 1.1);
      found.push_back(std::move(f));
    }
  if (found.empty()) return false;
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.runs.cost < b.runs.cost; });
  const size_t improved = times > 1 ? 1 : static_cast<size_t>(options.improved);
  if (found.size() > improved) found.resize(improved);
  // A trial takes time with the steps.
  const int trials =
      std::min(options.trials, static_cast<int>(options.visits / facts.work.steps.size()));
  for (Found& f : found) improve(facts.work, limit, trials, options, f.runs);
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.runs.cost < b.runs.cost; });
  climb(facts, limit, options, found[0]);
  best = std::move(found[0].runs);
  return true;
}

// Where the steps are a chain the optimum is known.
std::optional<Recomputation> along_chain(const Facts& facts, int64_t limit,
                                         const RecomputeOptions& options) {
  std::optional<Sequence> sequence = chain_within(facts.work, limit);
  if (!sequence) return std::nullopt;
  const Timeline t = follow(facts.work, *sequence);
  if (t.peak > limit || t.cost > options.excess * facts.total) return std::nullopt;
  return Recomputation{std::move(*sequence), t.peak, t.cost};
}

}  // namespace

std::optional<Recomputation> recompute_within(const WorkList& work, int64_t limit,
                                              const RecomputeOptions& options) {
  Recomputation plain{once_each(work), 0, 0};
  const Timeline t = follow(work, plain.sequence);
  plain.peak = t.peak;
  plain.cost = t.cost;
  if (plain.peak <= limit) return plain;
  if (limit < floor_bytes(work)) return std::nullopt;
  const Facts facts(work);
  Recomputation best;
  const bool found = search(facts, limit, options, best);
  std::optional<Recomputation> chain = along_chain(facts, limit, options);
  if (chain && (!found || chain->cost < best.cost)) return chain;
  if (!found) return std::nullopt;
  return best;
}

Result<Recomputation> recompute(const WorkList& work, int64_t limit,
                                const RecomputeOptions& options) {
  std::optional<Recomputation> found = recompute_within(work, limit, options);
  if (!found)
    return Status(Code::out_of_memory,
                  format("the steps do not fit into {} bytes; the smallest that was found is {}",
                         limit, smallest(work, options).peak));
  HONE_ENSURE(is_valid(work, found->sequence));
  return std::move(*found);
}

int64_t floor_bytes(const WorkList& work) {
  int64_t most = 0;
  std::vector<int32_t> reads;
  for (const Work& w : work.steps) {  // writes may take the place of reads
    reads = w.reads;
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    int64_t bytes = w.scratch;
    for (int32_t b : reads) bytes += work.bytes[static_cast<size_t>(b)];
    most = std::max(most, bytes);
  }
  return most;
}

Recomputation smallest(const WorkList& work, const RecomputeOptions& options) {
  const Facts facts(work);
  Recomputation best{once_each(work), 0, facts.total};
  best.peak = follow(work, best.sequence).peak;
  int64_t low = floor_bytes(work), high = best.peak;
  const bool is_long = work.steps.size() > 3000;
  const int tried = is_long ? 1 : 2;  // of the weights
  while (high - low > std::max<int64_t>(64, high / (is_long ? 30 : 100))) {
    const int64_t middle = low + (high - low) / 2;
    Recomputation r;
    bool fits = false;
    for (int k = 0; k < tried && !fits; ++k)
      fits = attempt(facts, {middle, kWeights[k], {}}, options.excess * facts.total, r);
    if (!fits) {
      std::optional<Recomputation> chain = along_chain(facts, middle, options);
      fits = chain.has_value();
      if (fits) r = std::move(*chain);
    }
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
