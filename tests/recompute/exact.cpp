// SPDX-License-Identifier: Apache-2.0
// Extra compute within 75, 50, 35 and 25 % of the free peak, against the optimum: the mixed-integer
// program of Jain et al., "Checkmate" (2020), solved by CBC. One row for each instance and limit;
// it fails when one costs more than 5 % above the optimum, or does not fit where the optimum does.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "core/plan/recompute.hpp"

namespace hone {

namespace {

// Forward nodes by what they read, each with bytes and cost; their gradients follow.
struct Network {
  std::string name;
  std::vector<std::vector<int32_t>> reads;
  std::vector<int64_t> bytes;
  std::vector<double> costs;
};

// The gradient of a node's result reads those of its readers' results and what they read.
WorkList training(const Network& n) {
  WorkList w;
  const int32_t count = static_cast<int32_t>(n.reads.size());
  for (int32_t i = 0; i < count; ++i) {
    Work forward;
    forward.reads = n.reads[static_cast<size_t>(i)];
    forward.writes = {i};
    forward.cost = n.costs[static_cast<size_t>(i)];
    w.steps.push_back(forward);
  }
  for (int32_t i = count; i-- > 0;) {
    std::vector<int32_t> reads;
    const auto add = [&](int32_t b) {
      if (std::find(reads.begin(), reads.end(), b) == reads.end()) reads.push_back(b);
    };
    for (int32_t user = 0; user < count; ++user) {
      const auto& read = n.reads[static_cast<size_t>(user)];
      if (std::find(read.begin(), read.end(), i) == read.end()) continue;
      add(count + user);
      for (int32_t b : read) add(b);
    }
    if (i == count - 1) add(i);
    Work backward;
    backward.reads = reads;
    backward.writes = {count + i};
    backward.cost = 2 * n.costs[static_cast<size_t>(i)];
    w.steps.push_back(backward);
  }
  w.bytes = n.bytes;
  w.bytes.insert(w.bytes.end(), n.bytes.begin(), n.bytes.end());
  return w;
}

Network chain(std::string name, std::vector<int64_t> bytes, std::vector<double> costs) {
  Network n{std::move(name), {}, std::move(bytes), std::move(costs)};
  for (size_t i = 0; i < n.bytes.size(); ++i)
    n.reads.push_back(i == 0 ? std::vector<int32_t>{}
                             : std::vector<int32_t>{static_cast<int32_t>(i) - 1});
  return n;
}

std::vector<Network> networks() {
  std::vector<Network> out;
  out.push_back(chain("chain of 10", std::vector<int64_t>(10, 64), std::vector<double>(10, 1)));
  out.push_back(chain("chain of 11", std::vector<int64_t>(11, 64), std::vector<double>(11, 1)));
  // As in an image classifier: less and less bytes, the same work.
  out.push_back(chain("narrowing chain", {128, 128, 128, 128, 64, 64, 64, 64, 64, 64, 64},
                      {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1}));
  // Cheap and dear by turns, as normalisation and convolution.
  out.push_back(chain("uneven chain", {192, 192, 192, 192, 128, 128, 128, 128, 64},
                      {9, 1, 9, 1, 7, 1, 7, 1, 2}));
  Network residual{"residual", {{}}, {128}, {2}};
  for (int32_t x = 0; x < 9; x += 3) {
    residual.reads.insert(residual.reads.end(), {{x}, {x + 1}, {x, x + 2}});
    residual.bytes.insert(residual.bytes.end(), {128, 128, 128});
    residual.costs.insert(residual.costs.end(), {6, 6, 1});
  }
  out.push_back(residual);
  // Down, through the bottom, up again with what went down beside it.
  out.push_back({"U",
                 {{}, {0}, {1}, {2}, {3, 2}, {4, 1}, {5, 0}},
                 {192, 128, 64, 64, 64, 128, 192},
                 {8, 8, 8, 8, 10, 10, 10}});
  out.push_back({"attention",
                 {{}, {0}, {0}, {0}, {1, 2}, {4}, {5, 3}, {6, 0}, {7}, {8}, {9, 7}},
                 {64, 64, 64, 64, 256, 256, 64, 64, 256, 256, 64},
                 {1, 4, 4, 4, 4, 1, 4, 1, 8, 1, 8}});
  return out;
}

// Stages t, one for each first run of a step: R_t_i, i is run in stage t; S_t_i, its result is
// there when the stage begins; F_t_d_k, d is freed once k has run; U_t_k, bytes in use by then.
class Program {
 public:
  Program(const WorkList& w, int64_t limit) : w_(w), count_(static_cast<int>(w.steps.size())) {
    users_.resize(w.steps.size());
    for (int i = 0; i < count_; ++i)
      for (int d : deps(i)) users_[static_cast<size_t>(d)].push_back(i);
    objective();
    for (int t = 0; t < count_; ++t) stage(t, limit);
  }

  std::string text() const {
    return "Minimize\n obj: " + objective_ + "\nSubject To\n" + rows_ + "Bounds\n" + bounds_ +
           "Binaries\n" + binaries_ + "End\n";
  }

 private:
  // Each step writes one buffer, that of its own number or its gradient's: `training` numbers the
  // buffers of gradients by their forward step.
  int step_writing(int32_t buffer) const {
    for (int i = 0; i < count_; ++i)
      if (w_.steps[static_cast<size_t>(i)].writes[0] == buffer) return i;
    return -1;
  }
  std::vector<int> deps(int i) const {
    std::vector<int> out;
    for (int32_t b : w_.steps[static_cast<size_t>(i)].reads) out.push_back(step_writing(b));
    return out;
  }
  int64_t bytes(int i) const {
    return w_.bytes[static_cast<size_t>(w_.steps[static_cast<size_t>(i)].writes[0])];
  }
  static std::string r(int t, int i) { return format("R_{}_{}", t, i); }
  static std::string s(int t, int i) { return format("S_{}_{}", t, i); }
  static std::string f(int t, int d, int k) { return format("F_{}_{}_{}", t, d, k); }
  static std::string u(int t, int k) { return format("U_{}_{}", t, k); }
  void row(const std::string& text) { rows_ += " " + text + "\n"; }

  void objective() {
    for (int t = 0; t < count_; ++t)
      for (int i = 0; i <= t; ++i)
        objective_ += format(" + {} {}", w_.steps[static_cast<size_t>(i)].cost, r(t, i));
  }

  void stage(int t, int64_t limit) {
    row(r(t, t) + " = 1");
    for (int i = 0; i <= t; ++i) {
      binaries_ += " " + r(t, i) + (i < t ? " " + s(t, i) : "") + "\n";
      bounds_ += format(" 0 <= {} <= {}\n", u(t, i), limit);
      if (i < t)
        row(s(t, i) + " - " + r(t - 1, i) + (i < t - 1 ? " - " + s(t - 1, i) : "") + " <= 0");
      for (int d : deps(i)) row(r(t, i) + " - " + r(t, d) + " - " + s(t, d) + " <= 0");
    }
    std::string begin = format("{} - {} {}", u(t, 0), bytes(0), r(t, 0));
    for (int i = 0; i < t; ++i) begin += format(" - {} {}", bytes(i), s(t, i));
    row(begin + " = 0");
    for (int k = 0; k < t; ++k) {
      std::string next = format("{} - {} - {} {}", u(t, k + 1), u(t, k), bytes(k + 1), r(t, k + 1));
      std::vector<int> freed = deps(k);
      freed.push_back(k);
      for (int d : freed) {
        next += format(" + {} {}", bytes(d), f(t, d, k));
        free(t, d, k);
      }
      row(next + " = 0");
    }
  }

  // Freed exactly when k runs, no later reader does in this stage, and the next stage is to begin
  // without it.
  void free(int t, int d, int k) {
    binaries_ += " " + f(t, d, k) + "\n";
    std::string hazards = format("- {}", r(t, k));
    int most = 1;
    if (t + 1 < count_) hazards += " + " + s(t + 1, d), ++most;
    for (int user : users_[static_cast<size_t>(d)])
      if (user > k && user <= t) hazards += " + " + r(t, user), ++most;
    row(hazards + " + " + f(t, d, k) + " >= 0");
    row(format("{} + {} {} <= {}", hazards, most, f(t, d, k), most - 1));
  }

  const WorkList& w_;
  const int count_;
  std::vector<std::vector<int>> users_;
  std::string objective_, rows_, bounds_, binaries_;
};

struct Exact {
  std::string how;  // the solver's words
  double cost = 0;
};

Exact solve(const WorkList& w, int64_t limit, const std::string& folder) {
  const std::string model = folder + "/recompute.lp", answer = folder + "/recompute.sol";
  std::remove(answer.c_str());
  std::ofstream(model) << Program(w, limit).text();
  const std::string command =
      "cbc '" + model + "' sec 60 solve solu '" + answer + "' > /dev/null 2>&1";
  if (std::system(command.c_str()) != 0) return {"no answer"};
  std::ifstream in(answer);
  Exact out;
  std::getline(in, out.how, '-');
  const std::string key = "objective value ";
  std::string rest;
  std::getline(in, rest);
  if (const size_t at = rest.find(key); at != std::string::npos)
    out.cost = std::strtod(rest.c_str() + at + key.size(), nullptr);
  return out;
}

}  // namespace

}  // namespace hone

int main(int argc, char** argv) {
  using namespace hone;
  constexpr int kShares[] = {75, 50, 35, 25};
  const std::vector<Network> all = networks();
  if (std::system("command -v cbc > /dev/null 2>&1") != 0) {
    std::printf("skipped: %zu comparisons, as cbc is not installed (Debian: coinor-cbc)\n",
                all.size() * std::size(kShares));
    return 77;
  }
  const std::string folder = argc > 1 ? argv[1] : ".";
  int compared = 0, failed = 0, unsolved = 0;
  double worst = 1;
  std::printf(
      "| network (steps) | share | optimum | found | ratio |\n| --- | --: | --: | --: | --: |\n");
  for (const Network& n : all) {
    const WorkList w = training(n);
    const int64_t peak = follow(w, once_each(w)).peak;
    double once = 0;
    for (const Work& s : w.steps) once += s.cost;
    for (const int share : kShares) {
      const int64_t limit = peak * share / 100;
      const Exact exact = solve(w, limit, folder);
      const Result<Recomputation> found = recompute(w, limit);
      const bool solved = exact.how.rfind("Optimal", 0) == 0;
      const bool impossible =
          exact.how.rfind("Infeasible", 0) == 0 || exact.how.rfind("Integer infeasible", 0) == 0;
      const double ratio = solved && found.ok() ? found->cost / exact.cost : 0;
      std::printf("| %s (%zu) | %d %% | ", n.name.c_str(), w.steps.size(), share);
      if (solved)
        std::printf("+%.1f %% | ", 100 * (exact.cost / once - 1));
      else
        std::printf("%s | ", impossible ? "impossible" : "unsolved");
      if (found.ok())
        std::printf("+%.1f %% | ", 100 * (found->cost / once - 1));
      else
        std::printf("does not fit | ");
      std::printf("%.3f |\n", ratio);
      std::fflush(stdout);
      if (!solved && !impossible) {
        ++unsolved;
        continue;
      }
      ++compared;
      worst = std::max(worst, ratio);
      failed += solved ? ratio == 0 || ratio > 1.05 : found.ok();
    }
  }
  std::printf("%d compared, %d unsolved within 60 s, %d failed; at most %.3f of the optimum\n",
              compared, unsolved, failed, worst);
  return failed == 0 && compared > 0 ? 0 : 1;
}
