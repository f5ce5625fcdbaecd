// SPDX-License-Identifier: Apache-2.0
// Opening a model of whatever kind, told by its first bytes.
#include <algorithm>

#include "core/base/file.hpp"
#include "hone/tflite.hpp"

namespace hone {

namespace {

// What people also have lying about, and what to do with it.
struct Stranger {
  size_t offset;
  std::string_view magic;
  std::string_view advice;
};
constexpr Stranger kStrangers[] = {
    {0, "PK\x03\x04",
     "a zip archive: if it is a PyTorch file, write ONNX from it with torch.onnx.export"},
    {0, "\x80\x02", "a pickle: if it is a PyTorch file, write ONNX from it with torch.onnx.export"},
    {0, "\x89HDF", "an HDF5 file: if it is a Keras model, write ONNX from it with tf2onnx"},
    {0, "GGUF", "a GGUF file, which holds weights but no graph"},
    {4, "ORTM", "an ONNX Runtime model: take the .onnx file that it was made from"},
    {8, "{\"", "a safetensors file, which holds weights but no graph"},
    {0, "\x93NUMPY", "a NumPy array, which holds data but no graph"},
    {0, "version https://", "a Git LFS pointer: fetch the file itself with `git lfs pull`"},
    {0, "<", "a web page or other XML, as a failed download leaves it"},
    {0, "\x1f\x8b", "gzip data: unpack it first"},
    {0, "\x89PNG", "a PNG image"},
    {0, "\xff\xd8\xff", "a JPEG image"},
};

bool is_text(std::string_view start) {
  return std::all_of(start.begin(), start.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
}

}  // namespace

Result<Model> open_model(const std::string& path, const OnnxImportOptions& options) {
  bool text = false;
  {
    HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
    char head[16] = {};
    const size_t count = std::min(sizeof head, file.bytes().size());
    if (count == 0) return invalid_model("{} is empty", path);
    std::copy_n(reinterpret_cast<const char*>(file.bytes().data()), count, head);
    const std::string_view start(head, count);
    text = is_text(start);
    if (start.starts_with("HONE")) return load_model(path);
    if (start.size() >= 8 && start.substr(4, 4) == "TFL3") return import_tflite(path, options);
    for (const Stranger& s : kStrangers)
      if (start.size() > s.offset && start.substr(s.offset).starts_with(s.magic))
        return invalid_model("{} is no model that can be opened but {}", path, s.advice);
  }
  auto model = import_onnx(path, options);
  if (text && model.status().code() == Code::invalid_model)
    return invalid_model("{} is no model that can be opened but text", path);
  return model;
}

}  // namespace hone
