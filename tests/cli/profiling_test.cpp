// SPDX-License-Identifier: Apache-2.0
// What the command line makes of a profile.
#include "core/cli/profiling.hpp"

#include "tests/support/check.hpp"

namespace hone::test {

namespace {

Profile two_steps() {
  Profile p;
  ProfileRow a;
  a.name = "conv 'a \"quoted\" \\ name'";
  a.op = "conv";
  a.kernel = "onednn.conv";
  a.flops = 2e6;
  a.bytes = 4000;
  a.runs = 2;
  a.total_ns = 3'000'000;
  ProfileRow b = a;
  b.name = "relu 'b'";
  b.op = "relu";
  b.kernel = "vector.pointwise";
  b.step = 1;
  b.total_ns = 1'000'000;
  p.rows = {a, b};
  p.events = {{0, 10, 1'500'000}, {1, 1'500'010, 500'000}, {0, 2'000'010, 1'500'000}};
  return p;
}

int count(std::string_view text, std::string_view what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Whether brackets and braces match outside of strings, and every string ends.
bool balanced(std::string_view json) {
  std::string open;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      open += c == '{' ? '}' : ']';
    } else if (!in_string && (c == '}' || c == ']')) {
      if (open.empty() || open.back() != c) return false;
      open.pop_back();
    }
  }
  return open.empty() && !in_string;
}

}  // namespace

TEST_CASE("a trace has one complete event for each run of a step, in microseconds") {
  const std::string trace = cli::trace_json(two_steps());
  CHECK(balanced(trace));
  CHECK_EQ(count(trace, "\"ph\": \"X\""), 3);
  CHECK_EQ(count(trace, R"("name": "conv 'a \"quoted\" \\ name'")"), 2);
  CHECK_EQ(count(trace, "\"ts\": 1500.01, \"dur\": 500,"), 1);
  CHECK(balanced(cli::trace_json(Profile())));
}

TEST_CASE("a profile's table sums by operator and tells rates of one run") {
  const std::string text = cli::profile_text(two_steps(), 2);
  CHECK_NE(text.find("mean of 2 runs"), std::string::npos);
  CHECK_NE(text.find("onednn.conv"), std::string::npos);
  CHECK_NE(text.find("1.5"), std::string::npos);   // milliseconds of a run
  CHECK_NE(text.find("75"), std::string::npos);    // per cent
  CHECK_NE(text.find("1.33"), std::string::npos);  // Gflop/s: 2 x 2e6 in 3 ms
  CHECK_LT(text.find("onednn.conv"), text.find("vector.pointwise"));
}

}  // namespace hone::test
