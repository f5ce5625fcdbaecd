// SPDX-License-Identifier: Apache-2.0
// Profiles as tables, JSON and traces.
#include "core/cli/profile_view.hpp"

#include "hone/ops.hpp"
#include "hone/session.hpp"
#include "tests/cli/json.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::cli {

namespace {

using test::Json;
using test::must;

// Two runs of three steps: one bound by arithmetic, two by memory, one of them named awkwardly.
Profile sample() {
  Profile p;
  p.origin_ns = 5'000'000;
  p.rows = {
      {0, 0, "matmul 'a'", "matmul", "fast.matmul", PlanPhase::forward, 8e6, 1000, 2, 100,
       4'000'000},
      {0, 1, "add \"b\\c\"", "add", "plain", PlanPhase::backward, 1e3, 12'000, 2, 2'000'100,
       3'000'000},
      {0, 2, "add 'd'", "add", "plain", PlanPhase::update, 1e3, 12'000, 2, 3'500'100, 1'000'000}};
  int64_t at = 100;
  for (int run = 0; run < 2; ++run)
    for (int32_t i = 0; i < 3; ++i) {
      const int64_t ns = p.rows[static_cast<size_t>(i)].total_ns / 2;
      p.events.push_back({i, at, ns});
      at += ns;
    }
  return p;
}

constexpr MachineSpeed kMachine = {2, 16e9, 0, 24e6};

Json read(const std::string& text) {
  std::string wrong;
  Json out = test::read_json(text, wrong);
  CHECK_EQ(wrong, "");
  return out;
}

}  // namespace

TEST_CASE("the JSON that tests read is JSON") {
  std::string wrong;
  for (const char* bad : {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "nul", "01", "[1] 2", "\"a",
                          "{1:2}", "{\"a\" 1}", "+1", "\"\n\""}) {
    CAPTURE(bad);
    (void)test::read_json(bad, wrong);
    CHECK_NE(wrong, "");
  }
  const Json j = test::read_json(" {\"a\": [1, -2.5e1, null, true], \"b\": \"x\\\"y\"} ", wrong);
  CHECK_EQ(wrong, "");
  CHECK_EQ(j["a"].items[1].number, -25);
  CHECK_EQ(j["b"].text, "x\\\"y");
}

TEST_CASE("steps that are carried out alike are one group, the slowest first") {
  Profile p = sample();
  std::vector<ProfileGroup> groups = group_profile(p);
  REQUIRE_EQ(groups.size(), 2);
  CHECK_EQ(groups[0].op, "add");  // two steps that take as long as the product: then by name
  CHECK_EQ(groups[0].steps, 2);
  CHECK_EQ(groups[0].total_ns, 4'000'000);
  CHECK_EQ(groups[0].bytes, 48'000);  // two steps, two runs, 12,000 each
  CHECK_EQ(groups[0].flops, 4e3);
  p.rows[0].total_ns += 1;
  CHECK_EQ(group_profile(p)[0].op, "matmul");
}

TEST_CASE("a step is bound by arithmetic or by memory, and held against that peak") {
  const ProfileBounds b = profile_bounds(sample(), kMachine);
  CHECK_EQ(b.balance, doctest::Approx(16e9 / 24e6));  // 667 operations a byte; the product has 8000
  CHECK_EQ(b.arithmetic.time_share, doctest::Approx(0.5));
  CHECK_EQ(b.arithmetic.of_peak, doctest::Approx(16e6 / 4e-3 / 16e9));  // a quarter
  CHECK_EQ(b.memory.time_share, doctest::Approx(0.5));
  CHECK_EQ(b.memory.of_peak, doctest::Approx(48e3 / 4e-3 / 24e6));  // a half
  CHECK_EQ(profile_bounds(Profile(), kMachine).arithmetic.of_peak, 0);
  CHECK_EQ(profile_bounds(sample(), MachineSpeed()).balance, 0);
}

TEST_CASE("the tables show shares, speeds, phases and the slowest steps by name") {
  const std::string text = profile_text({sample(), kMachine, 2, true});
  CAPTURE(text);
  const auto has = [&](const char* what) { return text.find(what) != std::string::npos; };
  CHECK(has("matmul    fast.matmul      1         2   50.0 %        4   25.0 %"));
  CHECK(has("add       plain            2         2   50.0 %"));
  CHECK(has("forward 50.0 %, backward 37.5 %, update 12.5 %"));
  CHECK(has("50.0 % of the time, at 25.0 % of the peak. By memory: 50.0 %, at 50.0 %"));
  CHECK_LT(text.find("matmul 'a'"), text.find("add \"b\\c\""));
  CHECK_LT(text.find("add \"b\\c\""), text.find("add 'd'"));
  // Without a measured machine there are no shares of its peaks.
  const std::string alone = profile_text({sample(), {}, 2, false});
  CHECK_EQ(alone.find("peak"), std::string::npos);
  CHECK_EQ(alone.find("Phases"), std::string::npos);
  CHECK_EQ(profile_text({Profile(), kMachine, 0, false}), "No step has run.\n");
}

TEST_CASE("a profile as JSON has every row") {
  const Json j = read(profile_json({sample(), kMachine, 2, true}));
  CHECK_EQ(j["runs"].number, 2);
  CHECK_EQ(j["total_ns"].number, 8'000'000);
  CHECK_EQ(j["machine"]["f32_gflop_per_s"].number, 16);
  CHECK_EQ(j["machine"]["bf16_gflop_per_s"].kind, Json::Kind::null);
  CHECK_EQ(j["arithmetic_bound"]["of_peak"].number, doctest::Approx(0.25));
  REQUIRE_EQ(j["rows"].items.size(), 3);
  const Json& row = j["rows"].items[1];
  CHECK_EQ(row["name"].text, "add \\\"b\\\\c\\\"");
  CHECK_EQ(row["phase"].text, "backward");
  CHECK_EQ(row["bytes"].number, 12'000);
  CHECK_EQ(row["total_ns"].number, 3'000'000);
}

TEST_CASE("a trace has one complete event a run of a step, and what happened around them") {
  const Json j = read(trace_json(sample(), {{"data", 4'000'000, 500}}));
  std::vector<const Json*> steps, around;
  for (const Json& e : j["traceEvents"].items) {
    CHECK_EQ(e["pid"].number, 1);
    if (e["ph"].text == "M") {
      CHECK_EQ(e["name"].text, "thread_name");
      CHECK(e["args"].has("name"));
      continue;
    }
    CHECK_EQ(e["ph"].text, "X");
    (e["tid"].number == 1 ? steps : around).push_back(&e);
  }
  REQUIRE_EQ(steps.size(), 6);
  REQUIRE_EQ(around.size(), 1);
  CHECK_EQ((*around[0])["ts"].number, 0);  // a trace begins with what came first
  CHECK_EQ((*around[0])["dur"].number, 0.5);
  double end = 0;
  for (const Json* e : steps) {
    CHECK_GE((*e)["ts"].number, doctest::Approx(end));
    end = (*e)["ts"].number + (*e)["dur"].number;
  }
  CHECK_EQ((*steps[0])["ts"].number, 1000.1);  // 1 ms after the data, and 100 ns
  CHECK_EQ((*steps[0])["dur"].number, 2000);
  CHECK_EQ((*steps[4])["name"].text, "add \\\"b\\\\c\\\"");
  CHECK_EQ((*steps[4])["cat"].text, "backward");
  CHECK_EQ((*steps[4])["args"]["kernel"].text, "plain");
}

TEST_CASE("the trace of a real run has its steps") {
  Model m;
  Builder b(m.graph);
  const Value x = b.input({DType::f32, {2, 3}}, "x");
  b.output(ops::tanh(ops::matmul(x, b.constant(test::random_tensor({DType::f32, {3, 5}}, 1), "w"))),
           "y");
  REQUIRE_OK(b.status());
  Session s = must(Session::create(m, {.kernels = Kernels::reference}));
  s.start_profile({.max_events = 100});
  const std::vector<TensorData> in = {test::random_tensor({DType::f32, {2, 3}}, 2)};
  for (int i = 0; i < 3; ++i) REQUIRE(s.run(in).ok());
  const Json j = read(trace_json(s.profile(), {}));
  CHECK_EQ(j["traceEvents"].items.size(), 1 + 3 * 2);
  CHECK_EQ(j["traceEvents"].items[2]["args"]["operator"].text, "tanh");
}

}  // namespace hone::cli
