// SPDX-License-Identifier: Apache-2.0
// Extra compute within 75, 50, 35 and 25 % of the free peak, against the optimum: the mixed-integer
// program of Jain et al., "Checkmate" (2020), solved by CBC. One row for each instance and limit;
// it fails when one costs more than 5 % above the optimum, or does not fit where the optimum does.
// CBC is asked for something cheaper than what was found: where there is nothing, that is the
// optimum.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "core/plan/recompute.hpp"

namespace hone {

namespace {

constexpr int kSeconds = 240;  // for one instance at one limit

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

// Cut out of the lab's models, or put together from their layers, with the sizes of batch 8.
class Layers {
 public:
  explicit Layers(std::string name) { n_.name = std::move(name); }

  // A node that reads `from` and makes `kib` KiB with so many million operations. Time as the
  // planner estimates it, in microseconds.
  int32_t add(std::vector<int32_t> from, int64_t kib, double million) {
    double moved = static_cast<double>(kib);
    for (int32_t i : from) moved += static_cast<double>(n_.bytes[static_cast<size_t>(i)]);
    n_.reads.push_back(std::move(from));
    n_.bytes.push_back(kib);
    n_.costs.push_back(std::round(million * 1e3 / 40 + moved * 1.024 / 8));
    return static_cast<int32_t>(n_.bytes.size()) - 1;
  }
  // `channels` of `side` x `side`, from a convolution whose results take `products` products each.
  int32_t conv(int32_t from, int64_t channels, int64_t side, int64_t products) {
    const int64_t results = 8 * channels * side * side;
    return add({from}, results / 256, 2e-6 * static_cast<double>(results * products));
  }
  int32_t same(std::vector<int32_t> from) {
    const int64_t kib = n_.bytes[static_cast<size_t>(from[0])];
    return add(std::move(from), kib, 0);
  }
  Network take() { return std::move(n_); }

 private:
  Network n_;
};

// The first block of ResNet-18's second stage.
Network residual_block() {
  Layers l("resnet18 layer2.0");
  const int32_t x = l.add({}, 8 * 64 * 56 * 56 / 256, 0);
  const int32_t first = l.same({l.same({l.conv(x, 128, 28, 64 * 9)})});
  const int32_t second = l.same({l.conv(first, 128, 28, 128 * 9)});
  const int32_t beside = l.same({l.conv(x, 128, 28, 64)});
  l.same({l.same({second, beside})});
  return l.take();
}

// A block of MobileNetV2 with its clips.
Network inverted_residual() {
  Layers l("mobilenet_v2 features.3");
  const int32_t x = l.add({}, 8 * 24 * 56 * 56 / 256, 0);
  const int32_t wide = l.same({l.same({l.conv(x, 144, 56, 24)})});
  const int32_t deep = l.same({l.same({l.conv(wide, 144, 56, 9)})});
  l.same({l.same({l.conv(deep, 24, 56, 144)}), x});
  return l.take();
}

// ResNet-18, a node for each block.
Network resnet() {
  Layers l("resnet18 by blocks");
  int32_t x = l.same({l.same({l.add({}, 8 * 64 * 112 * 112 / 256, 8 * 236)})});
  x = l.add({x}, 8 * 64 * 56 * 56 / 256, 0);
  for (const int64_t stage : {0, 1, 2, 3})
    for (const int64_t block : {0, 1}) {
      const int64_t channels = int64_t{64} << stage, side = 56 >> stage;
      const int64_t in = stage > 0 && block == 0 ? channels / 2 : channels;
      x = l.conv(x, channels, side, 9 * (in + channels));
    }
  l.add({x}, 16, 0);
  return l.take();
}

// The U-Net of width 16 on 128 x 128, a node for each of its blocks.
Network u_net() {
  Layers l("unet by blocks");
  const int32_t a = l.add({}, 8 * 16 * 128 * 128 / 256, 8 * 90);
  const int32_t b = l.conv(l.add({a}, 8 * 16 * 64 * 64 / 256, 0), 32, 64, 9 * (16 + 32));
  const int32_t c = l.conv(l.add({b}, 8 * 32 * 32 * 32 / 256, 0), 64, 32, 9 * (32 + 64));
  const int32_t middle = l.conv(l.add({c}, 8 * 64 * 16 * 16 / 256, 0), 128, 16, 9 * (64 + 128));
  const int32_t up_c = l.conv(middle, 64, 32, 128);
  const int32_t d3 = l.conv(l.add({up_c, c}, 8 * 128 * 32 * 32 / 256, 0), 64, 32, 9 * 192);
  const int32_t up_b = l.conv(d3, 32, 64, 64);
  const int32_t d2 = l.conv(l.add({up_b, b}, 8 * 64 * 64 * 64 / 256, 0), 32, 64, 9 * 96);
  const int32_t up_a = l.conv(d2, 16, 128, 32);
  l.conv(l.add({up_a, a}, 8 * 32 * 128 * 128 / 256, 0), 16, 128, 9 * 48);
  return l.take();
}

// A layer of bert_tiny: 128 tokens of 128 numbers, two heads, 512 hidden ones.
Network encoder_layer() {
  Layers l("bert_tiny layer");
  constexpr int64_t kTokens = 8 * 128, kSmall = kTokens * 128 / 256, kWide = 4 * kSmall,
                    kScores = kTokens * 128 * 2 / 256;
  constexpr double kProjection = 2e-6 * kTokens * 128 * 128, kPairs = 2e-6 * kTokens * 128 * 128;
  const int32_t x = l.add({}, kSmall, 0);
  const int32_t q = l.add({x}, kSmall, kProjection), k = l.add({x}, kSmall, kProjection),
                v = l.add({x}, kSmall, kProjection);
  const int32_t weights = l.same({l.add({q, k}, kScores, kPairs)});
  const int32_t context = l.add({l.add({weights, v}, kSmall, kPairs)}, kSmall, kProjection);
  const int32_t middle = l.same({l.same({context, x})});
  const int32_t hidden = l.same({l.add({middle}, kWide, 4 * kProjection)});
  l.same({l.same({l.add({hidden}, kSmall, 4 * kProjection), middle})});
  return l.take();
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
  out.push_back(residual_block());
  out.push_back(inverted_residual());
  out.push_back(resnet());
  out.push_back(u_net());
  out.push_back(encoder_layer());
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
  enum class End : uint8_t { found, nothing, unsolved };
  End end = End::unsolved;
  double cost = 0;
};

// The cheapest sequence that costs less than `below`.
Exact solve(const WorkList& w, int64_t limit, double below, const std::string& folder) {
  const std::string model = folder + "/recompute.lp", answer = folder + "/recompute.sol";
  std::remove(answer.c_str());
  std::ofstream(model) << Program(w, limit).text();
  const std::string command = format("cbc '{}' cutoff {} sec {} solve solu '{}' > /dev/null 2>&1",
                                     model, below, kSeconds, answer);
  if (std::system(command.c_str()) != 0) return {};
  std::ifstream in(answer);
  std::string how, rest;
  std::getline(in, how, '-');
  std::getline(in, rest);
  if (how.rfind("Infeasible", 0) == 0 || how.rfind("Integer infeasible", 0) == 0)
    return {Exact::End::nothing, 0};
  const std::string key = "objective value ";
  const size_t at = rest.find(key);
  if (how.rfind("Optimal", 0) != 0 || at == std::string::npos) return {};
  return {Exact::End::found, std::strtod(rest.c_str() + at + key.size(), nullptr)};
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
      const Result<Recomputation> found = recompute(w, limit);
      // Costs are whole numbers: anything cheaper is cheaper by one.
      const double below = found.ok() ? found->cost - 0.5 : 100 * once;
      const Exact exact = solve(w, limit, below, folder);
      const bool optimal = found.ok() && exact.end == Exact::End::nothing;
      const double ratio = optimal                                        ? 1
                           : found.ok() && exact.end == Exact::End::found ? found->cost / exact.cost
                                                                          : 0;
      std::printf("| %s (%zu) | %d %% | ", n.name.c_str(), w.steps.size(), share);
      if (optimal || exact.end == Exact::End::found)
        std::printf("+%.1f %% | ", 100 * ((optimal ? found->cost : exact.cost) / once - 1));
      else
        std::printf("%s | ", exact.end == Exact::End::nothing ? "impossible" : "unsolved");
      if (found.ok())
        std::printf("+%.1f %% | ", 100 * (found->cost / once - 1));
      else
        std::printf("does not fit | ");
      std::printf("%.3f |\n", ratio);
      std::fflush(stdout);
      if (exact.end == Exact::End::unsolved) {
        ++unsolved;
        continue;
      }
      ++compared;
      worst = std::max(worst, ratio);
      failed += exact.end == Exact::End::found && (ratio == 0 || ratio > 1.05);
    }
  }
  std::printf("%d compared, %d unsolved within %d s, %d failed; at most %.3f of the optimum\n",
              compared, unsolved, kSeconds, failed, worst);
  return failed == 0 && compared > 0 ? 0 : 1;
}
