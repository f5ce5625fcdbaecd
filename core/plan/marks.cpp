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
  explicit Marks(Program& p) : p_(p), writer_(p.buffers.size(), -1) {
    std::vector<int> writers(p.buffers.size(), 0);
    for (size_t i = 0; i < p.steps.size(); ++i)
      for (BufferId b : p.steps[i].writes)
        if (b != kNone) writer_[at(b)] = ++writers[at(b)] == 1 ? static_cast<int32_t>(i) : -1;
  }

  void run() {
    std::map<int32_t, size_t> first;  // gradient step of each region
    for (size_t i = p_.steps.size(); i-- > 0;)
      if (region(p_.steps[i]) < 0) first[-region(p_.steps[i])] = i;
    if (first.empty()) return;
    std::map<size_t, std::vector<Step>> before;  // steps to insert, by position
    for (const auto& [r, position] : first) before[position] = repeat(r, position);
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
      if (b != kNone && (p_.buffers[at(b)].kind != BufferKind::arena ||
                         writer_[at(b)] != static_cast<int32_t>(step)))
        return false;
    for (BufferId b : s.reads) {
      if (b == kNone || p_.buffers[at(b)].kind != BufferKind::state) continue;
      for (size_t i = step; i < position; ++i)
        if (std::find(p_.steps[i].writes.begin(), p_.steps[i].writes.end(), b) !=
            p_.steps[i].writes.end())
          return false;
    }
    return true;
  }

  // Second runs of what the gradients of region `r` read; they then read those.
  std::vector<Step> repeat(int32_t r, size_t position) {
    std::vector<char> again(position, 0);
    const auto ask = [&](const Step& s, size_t limit) {
      for (BufferId b : s.reads) {
        if (b == kNone || writer_[at(b)] < 0) continue;
        const size_t w = static_cast<size_t>(writer_[at(b)]);
        if (w < limit && region(p_.steps[w]) == r && repeatable(w, position)) again[w] = 1;
      }
    };
    for (size_t i = position; i < p_.steps.size(); ++i)
      if (region(p_.steps[i]) == -r) ask(p_.steps[i], position);
    for (size_t i = position; i-- > 0;)
      if (again[i]) ask(p_.steps[i], i);
    std::map<BufferId, BufferId> twin;
    const auto redirect = [&](Step& s) {
      for (BufferId& b : s.reads)
        if (const auto t = twin.find(b); t != twin.end()) b = t->second;
    };
    std::vector<Step> out;
    for (size_t i = 0; i < position; ++i) {
      if (!again[i]) continue;
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
    for (size_t i = position; i < p_.steps.size(); ++i)
      if (region(p_.steps[i]) == -r) redirect(p_.steps[i]);
    return out;
  }

  Program& p_;
  std::vector<int32_t> writer_;  // of each buffer that one step alone writes
};

}  // namespace

void repeat_marked(Program& program) { Marks(program).run(); }

}  // namespace hone
