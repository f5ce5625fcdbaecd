// SPDX-License-Identifier: Apache-2.0
// hone_lab_eager [--threads N] [--f64] [--spoil] MODELS [NAME ...]: the models of examples/models,
// run define by run, against the reference data in MODELS/NAME and against what Hone makes of
// MODELS/NAME/model.onnx. One table row per model. Exit status: 0 all within what is allowed, 1
// something is not, 2 usage. With --spoil one weight is changed, and 0 means that every row
// noticed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "tests/lab/eager_compare.hpp"

namespace {

using namespace hone;
namespace fs = std::filesystem;

std::string cell(const lab::Finding& f) {
  if (!(f.share <= 1)) return "FAIL";
  if (f.same_bits) return "same";
  char text[32];
  std::snprintf(text, sizeof text, f.share < 0.01 ? "%.0e" : "%.2f", f.share);
  return text;
}

// Whether everything is as it should be.
bool report(std::string_view name, const Result<std::vector<lab::Finding>>& found, double seconds) {
  std::printf("%-18.*s", static_cast<int>(name.size()), name.data());
  if (!found.ok()) {
    std::printf("  FAIL\n    %s\n", found.status().message().c_str());
    return false;
  }
  bool good = true;
  for (const lab::Finding& f : *found) {
    std::printf("  %10s", cell(f).c_str());
    good = good && f.share <= 1;
  }
  std::printf("  %5.1f s\n", seconds);
  for (const lab::Finding& f : *found)
    if (!(f.share <= 1))
      std::printf("    %s: %.2f of what is allowed, worst %s\n", std::string(f.what).c_str(),
                  f.share, f.where.c_str());
  std::fflush(stdout);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  lab::CompareOptions options;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    if (std::strcmp(argv[at], "--spoil") == 0)
      options.spoil = true;
    else if (std::strcmp(argv[at], "--f64") == 0)
      options.f64 = true;
    else if (std::strcmp(argv[at], "--threads") == 0 && at + 1 < argc)
      options.threads = std::atoi(argv[++at]);
    else
      return std::fprintf(stderr, "unknown option %s\n", argv[at]), 2;
  }
  if (at >= argc)
    return std::fprintf(
               stderr, "usage: hone_lab_eager [--threads N] [--f64] [--spoil] MODELS [NAME ...]\n"),
           2;
  const std::string models = argv[at++];
  set_eager_threads(options.threads);
  const fs::path work =
      fs::temp_directory_path() / format("hone_lab_eager_{}", std::random_device()());
  fs::create_directories(work);
  options.work = work.string();

  for (int i = at; i < argc; ++i) {
    bool known = false;
    for (const lab::EagerModel& model : lab::eager_models()) known = known || model.name == argv[i];
    if (!known) std::fprintf(stderr, "%s is not written define by run\n", argv[i]);
  }

  std::printf("%-18s", "model");
  for (std::string_view c : lab::columns(options.f64))
    std::printf("  %10s", std::string(c).c_str());
  std::printf("\n");
  int passed = 0, failed = 0;
  for (const lab::EagerModel& model : lab::eager_models()) {
    const std::string folder = models + "/" + std::string(model.name);
    bool wanted = at == argc && fs::exists(folder + "/model.onnx");
    for (int i = at; i < argc; ++i) wanted = wanted || model.name == argv[i];
    if (!wanted) continue;
    const auto start = std::chrono::steady_clock::now();
    const auto found = lab::compare(model, folder, options);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ++(report(model.name, found, seconds.count()) ? passed : failed);
  }
  fs::remove_all(work);
  std::printf("%d passed, %d failed\n", passed, failed);
  if (options.spoil) return failed > 0 && passed == 0 ? 0 : 1;
  return passed > 0 && failed == 0 ? 0 : 1;
}
