// SPDX-License-Identifier: Apache-2.0
// Shared pieces of the commands.
#include "core/cli/common.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/base/platform.hpp"
#include "core/tensor/convert.hpp"
#include "core/tensor/philox.hpp"
#include "hone/npz.hpp"

namespace hone::cli {

void DeviceArgs::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads to use; 0: one a processor")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command.add_option("--device", device, "Where to run")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "vulkan", "cuda"}));
  command.add_flag("--deterministic", deterministic,
                   "The same bits for any number of threads; takes some scratch memory");
  command
      .add_option("--memory-limit", memory_limit,
                  "Memory for weights, optimizer state, activations and scratch: 64MiB, 1.5GB, ...")
      ->type_name("SIZE")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("the size is empty; write for example 64MiB") : "";
      });
  command
      .add_option("--max-dims", max_dims,
                  "The largest extents of named dimensions; larger inputs are refused")
      ->type_name("NAME=N,...");
}

Result<int64_t> parse_bytes(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"B", 1},      {"KB", 1e3},      {"MB", 1e6},
      {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits)
    if (error == std::errc() && unit == name && number > 0 && number * factor >= 1 &&
        number * factor < 9e18)
      return static_cast<int64_t>(number * factor);
  return invalid("'{}' is no size; write for example 64MiB, 1.5GB or 65536 (bytes)", text);
}

Result<SessionOptions> DeviceArgs::session() const {
  if (device != "cpu") return unsupported("this build has no {} backend; it runs on cpu", device);
  SessionOptions options;
  options.threads = threads > 0 ? threads : platform::available_processors();
  options.deterministic = deterministic;
  if (!memory_limit.empty()) {
    auto bytes = parse_bytes(memory_limit);
    if (!bytes.ok()) return bytes.status().with_context("--memory-limit");
    options.memory_limit = *bytes;
  }
  auto limits = parse_dim_limits(max_dims);
  if (!limits.ok()) return limits.status().with_context("--max-dims");
  options.max_dims = std::move(*limits);
  return options;
}

void TensorArgs::add_to(CLI::App& command) {
  command.add_option("--input", inputs, "NAME=FILE.npy, once for each input")
      ->type_name("NAME=FILE")
      ->take_all();
  command
      .add_option("--inputs", npz,
                  "An .npz with one array for each input (names may start with in/)")
      ->type_name("FILE.npz");
}

namespace {

bool is_input(const Graph& g, std::string_view name) {
  return std::any_of(g.inputs.begin(), g.inputs.end(),
                     [&](ValueId v) { return g.value(v).name == name; });
}

std::string input_names(const Graph& g) {
  std::string out;
  for (ValueId v : g.inputs) out += format("{}'{}'", out.empty() ? "" : ", ", g.value(v).name);
  return out.empty() ? "none" : out;
}

}  // namespace

Result<std::vector<NamedTensor>> TensorArgs::load(const Graph& g) const {
  std::vector<NamedTensor> out;
  if (!npz.empty()) {
    HONE_ASSIGN(const NpzReader reader, NpzReader::open(npz));
    for (const std::string& full : reader.names()) {
      const std::string name = full.rfind("in/", 0) == 0 ? full.substr(3) : full;
      if (!is_input(g, name)) {
        if (full.find('/') != std::string::npos) continue;  // targets and the like
        return invalid("{}: array '{}' is no input of the model; its inputs are {}", npz, full,
                       input_names(g));
      }
      HONE_ASSIGN(TensorData t, reader.read(full));
      out.push_back({name, std::move(t)});
    }
  }
  for (const std::string& text : inputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid("--input {}: expected NAME=FILE.npy", text);
    const std::string name = text.substr(0, equals);
    if (!is_input(g, name))
      return invalid("--input {}: the model has no input '{}'; its inputs are {}", text, name,
                     input_names(g));
    HONE_ASSIGN(TensorData t, read_npy(text.substr(equals + 1)));
    out.push_back({name, std::move(t)});
  }
  for (ValueId v : g.inputs) {
    const std::string& name = g.value(v).name;
    const auto count =
        std::count_if(out.begin(), out.end(), [&](const NamedTensor& t) { return t.name == name; });
    if (count == 0)
      return invalid(
          "input '{}' is missing: give --input {}=FILE.npy, or an array of that name in --inputs "
          "FILE.npz",
          name, name);
    if (count > 1) return invalid("input '{}' is given twice", name);
  }
  return out;
}

void DimArgs::add_to(CLI::App& command) {
  command.add_option("--batch", batch, "Extent of the batch axis")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--dim", dims, "NAME=N: what a named dimension stands for")
      ->type_name("NAME=N")
      ->take_all();
}

Result<std::vector<Shape>> DimArgs::shapes(const Graph& g) const {
  std::vector<int64_t> bound(g.dim_names.size(), -1);
  for (const std::string& text : dims) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto it = std::find(g.dim_names.begin(), g.dim_names.end(), name);
    char* end = nullptr;
    const long long n =
        equals == std::string::npos ? -1 : std::strtoll(text.c_str() + equals + 1, &end, 10);
    if (n < 0 || !end || *end) return invalid("--dim {}: expected NAME=N", text);
    if (it == g.dim_names.end())
      return invalid("--dim {}: the model has no dimension '{}'", text, name);
    bound[static_cast<size_t>(it - g.dim_names.begin())] = n;
  }
  std::vector<Shape> out;
  for (ValueId v : g.inputs) {
    Shape s = g.type(v).shape;
    for (int i = 0; i < s.rank(); ++i) {
      if (s[i] >= 0) continue;
      int64_t& value = bound[static_cast<size_t>(-s[i] - 1)];
      if (value < 0) value = i == 0 ? batch : 1;
      s[i] = value;
    }
    out.push_back(s);
  }
  return out;
}

Result<TensorData> made_up(const TensorType& type, uint64_t seed) {
  HONE_ASSIGN(TensorData t,
              TensorData::allocate({is_float(type.dtype) ? DType::f32 : DType::i64, type.shape}));
  for (int64_t i = 0; i < t.numel(); ++i) {
    const float u = Philox::uniform(seed, 0, static_cast<uint64_t>(i));
    if (is_float(type.dtype))
      t.as_mutable<float>()[i] = 2 * u - 1;
    else
      t.as_mutable<int64_t>()[i] = u < 0.5f ? 0 : 1;
  }
  return cast(t, type.dtype);
}

std::string file_name(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          c == '-' || c == '.'))
      c = '_';
  if (out.empty() || out[0] == '.') out.insert(0, "_");
  return out;
}

Status make_folder(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem) return io_error("cannot create the folder '{}': {}", path, problem.message());
  return {};
}

}  // namespace hone::cli
