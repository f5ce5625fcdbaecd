// SPDX-License-Identifier: Apache-2.0
// Checks of a TensorFlow Lite file, before anything is allocated for what it says.
#include "core/import/tflite_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace hone::tflite {

namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kMaxCopies = 8;  // of the whole file

std::optional<DType> dtype_of(schema::ElementType t) {
  switch (t) {
    case schema::ElementType::float64:
      return DType::f64;
    case schema::ElementType::float32:
      return DType::f32;
    case schema::ElementType::float16:
      return DType::f16;
    case schema::ElementType::bfloat16:
      return DType::bf16;
    case schema::ElementType::int64:
      return DType::i64;
    case schema::ElementType::int32:
      return DType::i32;
    case schema::ElementType::int8:
      return DType::i8;
    case schema::ElementType::uint8:
      return DType::u8;
    case schema::ElementType::boolean:
      return DType::bool_;
    default:
      return {};
  }
}

uint64_t size_of_list(const flatbuffers::Vector<int32_t>* v) {
  return v ? uint64_t{4} * v->size() : 0;
}

NarrowType narrow_of(schema::ElementType t) {
  if (t == schema::ElementType::int4) return NarrowType::int4;
  return t == schema::ElementType::int16 ? NarrowType::int16 : NarrowType::none;
}

// The least and the greatest number that is stored in elements of this type.
std::array<int64_t, 2> range_of(schema::ElementType t) {
  if (t == schema::ElementType::uint8) return {0, 255};
  const NarrowType narrow = narrow_of(t);
  const int64_t half = int64_t{1} << (narrow == NarrowType::none ? 7 : bits_of(narrow) - 1);
  return {-half, half - 1};
}

// int16, or int4 of which a byte has two, the first in its low half.
Result<TensorData> widened(std::span<const std::byte> raw, const TensorType& type, NarrowType t) {
  HONE_ASSIGN(TensorData out, TensorData::allocate(type));
  if (t == NarrowType::int16) {
    auto* to = out.as_mutable<int32_t>();
    for (size_t i = 0; i < raw.size() / 2; ++i) {
      int16_t v;
      std::memcpy(&v, raw.data() + 2 * i, sizeof v);
      to[i] = v;
    }
    return out;
  }
  auto* to = out.as_mutable<int8_t>();
  for (size_t i = 0; i < static_cast<size_t>(out.numel()); ++i) {
    const int bits = std::to_integer<int>(raw[i / 2]) >> (i % 2 * 4) & 15;
    to[i] = static_cast<int8_t>((bits ^ 8) - 8);
  }
  return out;
}

bool has_scales(const schema::Tensor& t) {
  const schema::Quantization* q = t.quantization();
  return q && q->scale() && q->scale()->size() > 0;
}

bool usable_in_place(std::span<const std::byte> raw, DType t) {
  if constexpr (std::endian::native == std::endian::big) return size_of(t) == 1;
  if (reinterpret_cast<uintptr_t>(raw.data()) % size_of(t) != 0) return false;
  // A bool that is neither 0 nor 1 must not be read as one.
  return t != DType::bool_ ||
         std::all_of(raw.begin(), raw.end(), [](std::byte b) { return b <= std::byte{1}; });
}

}  // namespace

std::string to_string(schema::ElementType t) {
  const char* name = schema::EnumNameElementType(t);
  return *name ? std::string(name) : format("elements of type {}", static_cast<int>(t));
}

Result<File> File::open(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  File f;
  f.bytes_ = bytes;
  f.owner_ = std::move(owner);
  if (!f.owner_ || reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
    const TensorType type{DType::u8, {static_cast<int64_t>(bytes.size())}};
    HONE_ASSIGN(const TensorData copy, TensorData::copy_of(type, bytes));
    f.bytes_ = copy.as_bytes();
    f.owner_ = std::make_shared<const TensorData>(copy);
  }
  f.copied_bytes_ = std::make_shared<uint64_t>(0);
  HONE_TRY(f.verify());
  for (f.graph_ = count(f.model().subgraphs()) - 1; f.graph_ > 0; --f.graph_)
    HONE_TRY(f.check_graph());
  HONE_TRY(f.check_graph());
  return f;
}

Result<File> File::body(int graph) const {
  if (graph < 0 || graph >= count(model_->subgraphs()))
    return invalid_model("there is no graph {}, the file has {}", graph,
                         model_->subgraphs()->size());
  File other = *this;
  other.graph_ = graph;
  return other;
}

Status File::check_graph() {
  for (int i = 0; i < tensors(); ++i) HONE_TRY(check_tensor(i));
  for (int i = 0; i < operators(); ++i) HONE_TRY(check_operator(i));
  HONE_TRY(check_indices(list(graph().inputs()), 0, "the graph's inputs"));
  return check_indices(list(graph().outputs()), 0, "the graph's outputs");
}

Status File::verify() {
  // Data beyond FlatBuffers' 2 GiB is addressed from outside of it (Buffer.offset).
  constexpr size_t kMost = (size_t{1} << 31) - 1;
  const size_t size = std::min(bytes_.size(), kMost - 1);
  if (size < 16) return invalid_model("{} bytes are too few for a TensorFlow Lite model", size);
  flatbuffers::Verifier::Options limits;
  limits.max_depth = 16;  // the schema nests four tables
  limits.max_tables = static_cast<flatbuffers::uoffset_t>(size / 8);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes_.data()), size, limits);
  if (!schema::VerifyModelBuffer(verifier))
    return invalid_model("no well-formed TensorFlow Lite model: the FlatBuffer is damaged");
  model_ = schema::GetModel(bytes_.data());
  if (model_->version() != kVersion)
    return unsupported("a TensorFlow Lite model of version {}, only {} is known", model_->version(),
                       kVersion);
  if (!model_->subgraphs() || model_->subgraphs()->size() == 0)
    return invalid_model("the model holds no graph");
  return {};
}

Status File::check_tensor(int i) {
  const schema::Tensor& t = tensor(i);
  HONE_TRY(spend(name(i).size() + size_of_list(t.shape()) + size_of_list(t.shape_signature())));
  const std::span<const int32_t> shape = list(t.shape()), free = list(t.shape_signature());
  if (shape.size() > kMaxRank)
    return unsupported("tensor '{}' has {} dimensions, at most {} are supported", name(i),
                       shape.size(), kMaxRank);
  if (!free.empty() && free.size() != shape.size())
    return invalid_model("tensor '{}': its shape has {} extents, its signature {}", name(i),
                         shape.size(), free.size());
  for (const int32_t extent : shape)
    if (extent < 0) return invalid_model("tensor '{}': extent {} is negative", name(i), extent);
  for (const int32_t extent : free)
    if (extent < -1)
      return invalid_model("tensor '{}': its signature has the extent {}", name(i), extent);
  const uint32_t buffers = model_->buffers() ? model_->buffers()->size() : 0;
  if (t.buffer() >= buffers && t.buffer() != 0)
    return invalid_model("tensor '{}': its data is in buffer {}, the file has {}", name(i),
                         t.buffer(), buffers);
  return check_quantization(i);
}

Status File::check_quantization(int i) {
  const auto q = quantization(i);
  if (!q || q->is_wide()) return {};  // what a file says of a bias does not count
  const std::string who = format("tensor '{}'", name(i));
  HONE_TRY(spend(q->scale.size_bytes() + q->zero_point.size_bytes()));
  for (const float s : q->scale)
    if (!(s >= 0) || s > std::numeric_limits<float>::max())
      return invalid_model("{}: its scale is {}", who, s);
  if (q->zero_point.size() > 1 && q->zero_point.size() != q->scale.size())
    return invalid_model("{}: has {} scales and {} zero points", who, q->scale.size(),
                         q->zero_point.size());
  const auto [least, greatest] = range_of(tensor(i).type());
  for (const int64_t z : q->zero_point)
    if (z < least || z > greatest)
      return invalid_model("{}: its zero point {} is no {}", who, z, to_string(tensor(i).type()));
  if (!q->per_axis()) return {};
  const std::span<const int32_t> shape = list(tensor(i).shape());
  if (q->axis < 0 || q->axis >= static_cast<int64_t>(shape.size()) ||
      static_cast<size_t>(shape[static_cast<size_t>(q->axis)]) != q->scale.size())
    return invalid_model("{}: has {} scales for axis {} of {} dimensions", who, q->scale.size(),
                         q->axis, shape.size());
  return {};
}

Status File::check_operator(int i) {
  const schema::Operator& o = op(i);
  const uint32_t codes = model_->operator_codes() ? model_->operator_codes()->size() : 0;
  if (o.opcode_index() >= codes)
    return invalid_model("operator {} is of kind {}, the file has {} kinds", i, o.opcode_index(),
                         codes);
  HONE_TRY(spend(size_of_list(o.inputs()) + size_of_list(o.outputs())));
  const std::string who = format("operator {} ({})", i, name_of(o));
  HONE_TRY(check_indices(list(o.inputs()), -1, who));
  return check_indices(list(o.outputs()), 0, who);
}

Status File::check_indices(std::span<const int32_t> tensors, int least, std::string_view who) {
  for (const int32_t t : tensors)
    if (t < least || t >= this->tensors())
      return invalid_model("{}: there is no tensor {}, the graph has {}", who, t, this->tensors());
  return {};
}

Status File::spend(uint64_t bytes) {
  *copied_bytes_ += bytes;
  if (*copied_bytes_ / kMaxCopies > bytes_.size())
    return invalid_model("the file of {} bytes names the same data again and again", bytes_.size());
  return {};
}

std::span<const int32_t> File::list(const flatbuffers::Vector<int32_t>* v) {
  static_assert(std::endian::native == std::endian::little, "lists are used where they lie");
  return v ? std::span<const int32_t>(v->data(), v->size()) : std::span<const int32_t>();
}

schema::Builtin File::code(const schema::Operator& o) const {
  const schema::OperatorCode& c = *model_->operator_codes()->Get(o.opcode_index());
  return static_cast<schema::Builtin>(
      std::max<int32_t>(c.small_code(), static_cast<int>(c.code())));
}

std::string File::name_of(const schema::Operator& o) const {
  const schema::Builtin c = code(o);
  const schema::OperatorCode& kind = *model_->operator_codes()->Get(o.opcode_index());
  if (c == schema::Builtin::CUSTOM)
    return format("the custom operator '{}'",
                  kind.custom_code() ? kind.custom_code()->string_view() : std::string_view());
  const char* known = schema::EnumNameBuiltin(c);
  return *known ? std::string(known) : format("operator {}", static_cast<int>(c));
}

std::string_view File::name(int i) const {
  const flatbuffers::String* s = tensor(i).name();
  return s ? s->string_view() : std::string_view();
}

std::vector<int64_t> File::extents(int i) const {
  const std::span<const int32_t> shape = list(tensor(i).shape()),
                                 free = list(tensor(i).shape_signature());
  std::vector<int64_t> out(shape.begin(), shape.end());
  for (size_t k = 0; k < free.size(); ++k)
    if (free[k] < 0) out[k] = -1;
  return out;
}

std::optional<DType> File::dtype(int i) const {
  const NarrowType narrow = narrow_of(tensor(i).type());
  if (narrow == NarrowType::none) return dtype_of(tensor(i).type());
  return has_scales(tensor(i)) ? held_in(narrow) : std::nullopt;
}

bool Quantization::operator==(const Quantization& o) const {
  return dtype == o.dtype && narrow == o.narrow && std::ranges::equal(scale, o.scale) &&
         std::ranges::equal(zero_point, o.zero_point) && (!per_axis() || axis == o.axis);
}

std::optional<Quantization> File::quantization(int i) const {
  const schema::Tensor& t = tensor(i);
  const auto held = dtype(i);
  if (!held || is_float(*held) || *held == DType::bool_ || !has_scales(t)) return {};
  const schema::Quantization& q = *t.quantization();
  Quantization out{{q.scale()->data(), q.scale()->size()}, {}, q.quantized_dimension()};
  out.dtype = *held, out.narrow = narrow_of(t.type());
  const auto* zeros = q.zero_point();
  if (zeros && !std::all_of(zeros->begin(), zeros->end(), [](int64_t z) { return z == 0; }))
    out.zero_point = {zeros->data(), zeros->size()};
  return out;
}

std::string File::lack(int i) const {
  const schema::Tensor& t = tensor(i);
  if (t.sparsity()) return "stored sparsely";
  if (t.quantization() && t.quantization()->details_kind() != 0)
    return "quantized by a method of its own";
  return dtype(i) ? std::string() : format("of {}", to_string(t.type()));
}

bool File::has_data(int i) const {
  const uint32_t b = tensor(i).buffer();
  if (b == 0 || !model_->buffers() || b >= model_->buffers()->size()) return false;
  const schema::Buffer& buffer = *model_->buffers()->Get(b);
  return (buffer.data() && buffer.data()->size() > 0) || buffer.offset() > 1;
}

Result<TensorData> File::data(int i) {
  const std::string who = format("tensor '{}'", name(i));
  const auto element = dtype(i);
  if (!element) return unsupported("{}: {} is not supported", who, to_string(tensor(i).type()));
  const std::span<const int32_t> dims = list(tensor(i).shape());
  const std::vector<int64_t> extents(dims.begin(), dims.end());
  HONE_ASSIGN(const Shape shape, Shape::make(extents));
  const auto want = checked_bytes(shape, *element);
  if (!want.ok()) return invalid_model("{}: {}", who, want.status().message());
  std::span<const std::byte> raw;
  if (has_data(i)) {
    const schema::Buffer& b = *model_->buffers()->Get(tensor(i).buffer());
    if (b.data() && b.data()->size() > 0) {
      raw = {reinterpret_cast<const std::byte*>(b.data()->data()), b.data()->size()};
    } else if (b.offset() > bytes_.size() || b.size() > bytes_.size() - b.offset()) {
      return invalid_model("{}: {} bytes at {} go beyond the file's {}", who, b.size(), b.offset(),
                           bytes_.size());
    } else {
      raw = bytes_.subspan(static_cast<size_t>(b.offset()), static_cast<size_t>(b.size()));
    }
  }
  const TensorType type{*element, shape};
  const NarrowType narrow = narrow_of(tensor(i).type());
  const auto elements = static_cast<uint64_t>(*want) / size_of(*element);
  const uint64_t size = narrow == NarrowType::none
                            ? static_cast<uint64_t>(*want)
                            : (elements * static_cast<uint64_t>(bits_of(narrow)) + 7) / 8;
  if (raw.size() != size)
    return invalid_model("{}: {} takes {} bytes, {} are stored", who, type, size, raw.size());
  if (narrow != NarrowType::none) {
    HONE_TRY(spend(static_cast<uint64_t>(*want)));
    return widened(raw, type, narrow);
  }
  if (!raw.empty() && usable_in_place(raw, *element))
    return TensorData::borrow(type, raw.data(), owner_);
  HONE_TRY(spend(raw.size()));
  HONE_ASSIGN(TensorData out, TensorData::copy_of(type, raw));
  if (*element == DType::bool_) {
    auto* each = static_cast<uint8_t*>(out.mutable_data());
    for (size_t k = 0; k < raw.size(); ++k) each[k] = each[k] != 0;
  }
  return out;
}

}  // namespace hone::tflite
