// SPDX-License-Identifier: Apache-2.0
// Checkpointed regions: the steps inside one are run a second time, into buffers of their own, for
// the region's gradients. What lies inside then lives no longer than each of the two passes needs
// it. Everything after this sees ordinary steps.
#include <algorithm>
#include <map>

#include "core/plan/program.hpp"

namespace hone {

namespace {

class Marks {
 public:
  explicit Marks(Program& p) : p_(p), writers_(p.buffers.size()), again_(p.steps.size(), 0) {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      for (BufferId b : p.steps[i].writes)
        if (b != kNone) writers_[at(b)].push_back(i);
      const int32_t r = region(p.steps[i]);
      if (r > 0) regions_[r].inside.push_back(i);
      if (r < 0) regions_[-r].gradients.push_back(i);
    }
  }

  void run() {
    std::map<size_t, std::vector<Step>> before;  // steps to insert, by position
    for (const auto& [r, of_region] : regions_)
      if (!of_region.gradients.empty())
        before[of_region.gradients.front()] = repeat(r, of_region.inside, of_region.gradients);
    if (before.empty()) return;
    std::vector<Step> steps;
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      if (const auto again = before.find(i); again != before.end())
        for (Step& s : again->second) steps.push_back(std::move(s));
      steps.push_back(std::move(p_.steps[i]));
    }
    p_.steps = std::move(steps);
  }

 private:
  static size_t at(BufferId b) { return static_cast<size_t>(b); }

  int32_t region(const Step& s) const { return s.node == kNone ? 0 : p_.graph.node(s.node).region; }

  // Whether a step may run again just before `position`: it writes temporary buffers alone, each as
  // the only one, and reads no state that has been overwritten by then.
  bool repeatable(size_t step, size_t position) const {
    const Step& s = p_.steps[step];
    for (BufferId b : s.writes)
      if (b != kNone &&
          (p_.buffers[at(b)].kind != BufferKind::arena || writers_[at(b)].size() != 1))
        return false;
    for (BufferId b : s.reads) {
      if (b == kNone || p_.buffers[at(b)].kind != BufferKind::state) continue;
      const std::vector<size_t>& writers = writers_[at(b)];
      const auto next = std::lower_bound(writers.begin(), writers.end(), step);
      if (next != writers.end() && *next < position) return false;
    }
    return true;
  }

  // Second runs of what the gradients of region `r` read; they then read those.
  std::vector<Step> repeat(int32_t r, std::span<const size_t> inside,
                           std::span<const size_t> gradients) {
    const size_t position = gradients.front();
    const auto ask = [&](const Step& s, size_t limit) {
      for (BufferId b : s.reads) {
        if (b == kNone || writers_[at(b)].size() != 1) continue;
        const size_t w = writers_[at(b)][0];
        if (w < limit && region(p_.steps[w]) == r && repeatable(w, position)) again_[w] = 1;
      }
    };
    for (size_t i : gradients) ask(p_.steps[i], position);
    for (size_t k = inside.size(); k-- > 0;)
      if (again_[inside[k]]) ask(p_.steps[inside[k]], inside[k]);
    std::map<BufferId, BufferId> twin;
    const auto redirect = [&](Step& s) {
      for (BufferId& b : s.reads)
        if (const auto t = twin.find(b); t != twin.end()) b = t->second;
    };
    std::vector<Step> out;
    for (size_t i : inside) {
      if (!again_[i]) continue;
      Step s = p_.steps[i];
      redirect(s);
      for (BufferId& b : s.writes) {
        if (b == kNone) continue;
        const BufferId copy = static_cast<BufferId>(p_.buffers.size());
        p_.buffers.push_back(p_.buffers[at(b)]);
        twin[b] = copy;
        b = copy;
      }
      out.push_back(std::move(s));
    }
    for (size_t i : gradients) redirect(p_.steps[i]);
    return out;
  }

  struct Region {
    std::vector<size_t> inside, gradients;  // steps, in order
  };

  Program& p_;
  std::vector<std::vector<size_t>> writers_;  // steps that write each buffer, in order
  std::map<int32_t, Region> regions_;
  std::vector<char> again_;  // by step
};

}  // namespace

void repeat_marked(Program& program) { Marks(program).run(); }

}  // namespace hone
