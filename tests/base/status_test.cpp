// SPDX-License-Identifier: Apache-2.0
#include "hone/status.hpp"

#include "tests/support/check.hpp"

namespace hone {
namespace {

Result<int> half(int v) {
  if (v % 2) return invalid("{} is odd", v);
  return v / 2;
}
Result<int> quarter(int v) {
  HONE_ASSIGN(const int h, half(v));
  HONE_ASSIGN(const int q, half(h));
  return q;
}
Status check_quarter(int v) {
  HONE_TRY(quarter(v).status());
  return {};
}

TEST_CASE("a status is ok until it carries a code and a message") {
  CHECK(Status().ok());
  const Status s = unsupported("op '{}' version {}", "Foo", 3);
  CHECK_FALSE(s.ok());
  CHECK_EQ(s.code(), Code::unsupported);
  CHECK_EQ(s.message(), "op 'Foo' version 3");
}

TEST_CASE("context goes before the message of a failure and leaves success alone") {
  CHECK_OK(Status().with_context("model 'a'"));
  CHECK_ERROR(invalid("bad weight").with_context("model 'a'"), Code::invalid_argument,
              "model 'a': bad weight");
}

TEST_CASE("assign and try pass the first error up") {
  CHECK_EQ(test::must(quarter(12)), 3);
  CHECK_ERROR(quarter(6), Code::invalid_argument, "3 is odd");
  CHECK_ERROR(check_quarter(7), Code::invalid_argument, "7 is odd");
  CHECK_OK(check_quarter(8));
}

TEST_CASE("a result moves its value out") {
  Result<std::string> r = std::string("text");
  CHECK_EQ(r->size(), 4u);
  const std::string s = std::move(r).value();
  CHECK_EQ(s, "text");
}

TEST_CASE("every code has a name of its own") {
  CHECK_EQ(to_string(Code::ok), "ok");
  CHECK_EQ(to_string(Code::io_error), "input/output error");
  CHECK_EQ(to_string(Code::internal), "internal error");
}

}  // namespace
}  // namespace hone
