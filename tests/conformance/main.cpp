// SPDX-License-Identifier: Apache-2.0
// Runs ONNX's backend test suite: import, save and load as `.hone`, run, compare. See README.md.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "hone/glob.hpp"
#include "hone/onnx.hpp"
#include "hone/session.hpp"
#include "tests/conformance/suite.hpp"

namespace hone::test {
namespace {

struct LeftOut {
  std::string_view globs, reason;
};
constexpr LeftOut kLeftOut[] = {
#include "tests/conformance/left_out.inc"
};

struct Options {
  std::string root, filter = "*", kind;
  bool core_only = false, list_failed = false, list_left_out = false, roundtrip = false,
       reference = false, verbose = false;
};

enum class Outcome { passed, failed, left_out };

struct Verdict {
  Outcome outcome = Outcome::passed;
  std::string why;
};

// ONNX's own tolerances. A discrete Fourier transform in single precision that sums in another
// order misses 1e-7 where the result is zero; ONNX's runner loosens it too.
struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;
};
Tolerance tolerance_of(const SuiteTest& test) {
  if (test.name.starts_with("test_dft")) return {1e-3, 1e-3};
  if (test.name == "light_densenet121") return {2e-3, 1e-7};
  return {};
}

Result<Model> through_hone_file(const Model& model) {
  HONE_ASSIGN(std::vector<std::byte> bytes, save_model(model));
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return load_model(*owner, owner);
}

Result<Model> through_export(const Model& model) {
  const std::string path =
      (std::filesystem::temp_directory_path() / format("hone_conformance_{}.onnx", getpid()))
          .string();
  HONE_TRY(export_onnx(model, path).with_context("export"));
  auto again = import_onnx(path);
  std::filesystem::remove(path);
  return again.ok() ? std::move(again) : again.status().with_context("import again");
}

Status run_test(const SuiteTest& test, const TestFacts& facts, const Options& options) {
  HONE_ASSIGN(Model model, import_onnx(test.model));
  if (options.roundtrip) {
    HONE_ASSIGN(model, through_export(model));
  }
  HONE_ASSIGN(const Model loaded, through_hone_file(model));
  HONE_ASSIGN(const TestData data, read_data(test, facts.inputs));
  SessionOptions session_options;
  if (options.reference) session_options.kernels = Kernels::reference;
  HONE_ASSIGN(Session session, Session::create(loaded, session_options));
  HONE_ASSIGN(const std::vector<TensorData> got, session.run(data.inputs));
  if (got.size() != data.outputs.size())
    return invalid("{} outputs, expected {}", got.size(), data.outputs.size());
  const Tolerance tolerance = tolerance_of(test);
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string wrong = judge(got[i], data.outputs[i], tolerance.rtol, tolerance.atol);
    if (!wrong.empty()) return invalid("output {} {}", i, wrong);
  }
  return {};
}

const LeftOut* listed(const SuiteTest& test) {
  for (const LeftOut& l : kLeftOut)
    if (matches(l.globs, test.name)) return &l;
  return nullptr;
}

Verdict verdict(const SuiteTest& test, const TestFacts& facts, const Options& options) {
  const LeftOut* exception = listed(test);
  const Status s = run_test(test, facts, options);
  if (s.ok() && !exception) return {};
  if (s.ok()) return {Outcome::failed, "passes, although left_out.inc lists it"};
  if (exception) return {Outcome::left_out, std::string(exception->reason)};
  if (!facts.core && s.code() == Code::unsupported) return {Outcome::left_out, facts.beyond};
  return {Outcome::failed, s.message()};
}

struct Count {
  int passed = 0, failed = 0, left_out = 0;
  int& of(Outcome o) {
    return o == Outcome::passed ? passed : o == Outcome::failed ? failed : left_out;
  }
};

void print_row(const char* name, const Count& c) {
  std::printf("%-20s %6d passed %6d failed %6d left out %6d in all\n", name, c.passed, c.failed,
              c.left_out, c.passed + c.failed + c.left_out);
}

int sweep(const Options& options) {
  std::map<std::string, Count> counts;
  Count all, core;
  std::map<std::string, int> reasons;
  for (const SuiteTest& test : find_tests(options.root)) {
    if (!matches(options.filter, test.name)) continue;
    if (!options.kind.empty() && test.kind != options.kind) continue;
    const auto facts = read_facts(test);
    if (options.core_only && !(facts.ok() && facts->core)) continue;
    if (options.verbose) std::printf("%s/%s\n", test.kind.c_str(), test.name.c_str());
    if (options.verbose) std::fflush(stdout);
    const Verdict v = facts.ok() ? verdict(test, *facts, options)
                                 : Verdict{Outcome::failed, facts.status().message()};
    ++counts[test.kind].of(v.outcome);
    ++all.of(v.outcome);
    if (facts.ok() && facts->core) ++core.of(v.outcome);
    if (v.outcome == Outcome::left_out) ++reasons[v.why];
    const bool list = (v.outcome == Outcome::failed && options.list_failed) ||
                      (v.outcome == Outcome::left_out && options.list_left_out);
    if (list)
      std::printf("%s\t%s/%s\t%s\t%s\n", v.outcome == Outcome::failed ? "failed" : "left out",
                  test.kind.c_str(), test.name.c_str(), facts.ok() ? facts->operators.c_str() : "",
                  v.why.c_str());
  }
  for (const auto& [kind, count] : counts) print_row(kind.c_str(), count);
  print_row("core", core);
  print_row("all", all);
  for (const auto& [reason, count] : reasons)
    std::printf("  left out %4d: %s\n", count, reason.c_str());
  if (all.passed + all.failed + all.left_out == 0) return std::printf("no tests found\n"), 2;
  return all.failed ? 1 : 0;
}

constexpr const char* kUsage =
    "usage: hone_conformance [option...] FOLDER\n"
    "Runs the tests of ONNX's backend suite below FOLDER (tests/conformance/fetch.sh gets it).\n"
    "  --filter GLOBS   only tests whose names match (comma-separated)\n"
    "  --kind KIND      only node, simple, pytorch-converted, pytorch-operator or light\n"
    "  --set core       only plain tensors of the usual types, nothing random\n"
    "  --roundtrip      export what was imported, import it again, and run that\n"
    "  --reference      the reference kernels instead of the fastest\n"
    "  --list-failed    a line for each test that fails, and why\n"
    "  --list-left-out  a line for each test that is left out, and why\n"
    "  --verbose        each test's name before it runs\n";

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  const std::pair<const char*, bool*> flags[] = {
      {"--roundtrip", &o.roundtrip},         {"--reference", &o.reference},
      {"--list-failed", &o.list_failed},     {"--verbose", &o.verbose},
      {"--list-left-out", &o.list_left_out},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool more = i + 1 < argc;
    bool known = false;
    for (const auto& [name, flag] : flags)
      if (arg == name) *flag = known = true;
    if (known) continue;
    if (arg == "--filter" && more) {
      o.filter = argv[++i];
    } else if (arg == "--kind" && more) {
      o.kind = argv[++i];
    } else if (arg == "--set" && more && std::strcmp(argv[i + 1], "core") == 0) {
      o.core_only = true;
      ++i;
    } else if (!arg.starts_with("-") && o.root.empty()) {
      o.root = arg;
    } else {
      return {};
    }
  }
  if (o.root.empty()) return {};
  return o;
}

}  // namespace
}  // namespace hone::test

int main(int argc, char** argv) {
  const auto options = hone::test::parse(argc, argv);
  if (!options) return std::fputs(hone::test::kUsage, stderr), 2;
  return hone::test::sweep(*options);
}
