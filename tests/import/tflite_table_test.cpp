// SPDX-License-Identifier: Apache-2.0
// core/import/TFLITE.md is written from the tables of rules.
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "core/import/tflite_ctx.hpp"
#include "tests/support/check.hpp"
#include "tests/support/source_path.hpp"

namespace hone {
namespace {

using namespace test;

std::string table() {
  std::multiset<std::string> names = {"IF", "WHILE"};
#define HONE_TFLITE_FAMILY(name)                               \
  for (const tflite::ImportRule& r : tflite::name##_imports()) \
    names.insert(tflite::schema::EnumNameBuiltin(r.code));
  HONE_TFLITE_FAMILIES(HONE_TFLITE_FAMILY)
#undef HONE_TFLITE_FAMILY
  std::string list;
  for (const std::string& name : names) {
    CHECK_EQ(names.count(name), 1);
    list += format("- {}\n", name);
  }
  return format(
             "# TensorFlow Lite operators that are imported\n\n"
             "Written by the tests from the tables of rules (`HONE_UPDATE_DOCS=1 "
             "hone_test_import`); "
             "not by hand.\n\n"
             "{} operators, on floats, on integers of 4, 8 and 16 bits that stand for reals, and "
             "on the integers "
             "and booleans that shapes, indices and choices need.\n\n",
             names.size()) +
         list;
}

TEST_CASE("the table of TensorFlow Lite's operators says what is there") {
  check_written("core/import/TFLITE.md", table(), "hone_test_import");
}

}  // namespace
}  // namespace hone
