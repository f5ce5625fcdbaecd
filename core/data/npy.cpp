// SPDX-License-Identifier: Apache-2.0
// Parsing and making of .npy headers, and elements into tensors.
#include "core/data/npy.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/bytes.hpp"
#include "core/base/file.hpp"
#include "hone/npz.hpp"

namespace hone {

// The elements go from file to memory as they are.
static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMostHeader = 1
                                 << 16;  // ours is under 300 bytes; only structured types need more

struct NamedType {
  std::string_view descr;
  DType dtype;
};
// NumPy says '|' where byte order means nothing, but takes '<' there too.
constexpr NamedType kTypes[] = {
    {"<f8", DType::f64}, {"<f4", DType::f32}, {"<f2", DType::f16}, {"<i8", DType::i64},
    {"<i4", DType::i32}, {"|i1", DType::i8},  {"|u1", DType::u8},  {"|b1", DType::bool_},
};

// The header's Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::optional<std::string> string() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  std::optional<int64_t> integer() {
    skip_spaces();
    const size_t first = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > (INT64_MAX - 9) / 10) return std::nullopt;
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == first) return std::nullopt;
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
    return value;
  }
  // (), (3,), (3, 4)
  std::optional<std::vector<int64_t>> tuple() {
    std::vector<int64_t> out;
    if (!take('(')) return std::nullopt;
    while (!take(')')) {
      if (!out.empty() && !comma_) return std::nullopt;
      const std::optional<int64_t> v = integer();
      if (!v) return std::nullopt;
      out.push_back(*v);
      comma_ = take(',');
    }
    return out;
  }
  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool comma_ = false;
};

Status bad_header() { return invalid_model("the array's header is damaged"); }

Result<NpyHeader> parse_dict(std::string_view text) {
  LiteralParser p(text);
  std::optional<std::string> descr;
  std::optional<Order> order;
  std::optional<std::vector<int64_t>> dims;
  if (!p.take('{')) return bad_header();
  while (!p.take('}')) {
    const std::optional<std::string> key = p.string();
    if (!key || !p.take(':')) return bad_header();
    if (*key == "descr" && !descr) {
      if (p.take('[')) return unsupported("a structured array cannot be a tensor");
      descr = p.string();
      if (!descr) return bad_header();
    } else if (*key == "fortran_order" && !order) {
      const bool fortran = p.take_word("True");
      if (!fortran && !p.take_word("False")) return bad_header();
      order = fortran ? Order::fortran : Order::c;
    } else if (*key == "shape" && !dims) {
      dims = p.tuple();
      if (!dims) return bad_header();
    } else {
      return bad_header();
    }
    if (!p.take(',')) {
      if (!p.take('}')) return bad_header();
      break;
    }
  }
  if (!p.at_end() || !descr || !order || !dims) return bad_header();
  if (dims->size() > kMaxRank)
    return unsupported("the array has {} dimensions, at most {} are supported", dims->size(),
                       kMaxRank);
  return NpyHeader{std::move(*descr), *order, Shape(*dims), 0};
}

// out[i, j, ...] = in[..., j, i] read in Fortran order: its first axis varies fastest.
void copy_from_fortran(const std::byte* in, std::byte* out, const Shape& shape, size_t width) {
  int64_t index[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};
  int64_t step = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  int64_t from = 0;
  for (int64_t n = shape.numel(), i = 0; i < n; ++i) {
    std::memcpy(out + static_cast<size_t>(i) * width, in + static_cast<size_t>(from) * width,
                width);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// C++ may not read a bool from a byte that is neither 0 nor 1.
Status check_bools(const TensorType& type, std::span<const std::byte> data) {
  if (type.dtype != DType::bool_) return {};
  const bool fine =
      std::all_of(data.begin(), data.end(), [](std::byte b) { return b <= std::byte{1}; });
  return fine ? Status() : invalid_model("the array of bools has a byte that is neither 0 nor 1");
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[extra] | c >> (6 * extra));
  for (int i = extra - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3f));
}

}  // namespace

Result<uint64_t> npy_data_at(std::span<const std::byte> start) {
  if (start.size() < 10 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0)
    return invalid_model("not a NumPy array");
  const int version = static_cast<int>(start[6]);
  if (version < 1 || version > 3)
    return invalid_model("version {} of the array's format is not known", version);
  if (version > 1 && start.size() < 12) return bad_header();
  const uint64_t at = version == 1 ? 10 + uint64_t{load_le<uint16_t>(start.data() + 8)}
                                   : 12 + uint64_t{load_le<uint32_t>(start.data() + 8)};
  if (at > kMostHeader)
    return unsupported("the array's header has {} bytes: no tensor needs that many", at);
  return at;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes) {
  HONE_ASSIGN(const uint64_t data_at, npy_data_at(bytes));
  if (data_at > bytes.size()) return invalid_model("the array ends within its header");
  const size_t text_at = bytes[6] == std::byte{1} ? 10 : 12;
  HONE_ASSIGN(NpyHeader header, parse_dict({reinterpret_cast<const char*>(bytes.data()) + text_at,
                                            data_at - text_at}));
  header.data_at = data_at;
  return header;
}

Result<DType> npy_dtype(const NpyHeader& header) {
  for (const NamedType& t : kTypes) {
    const bool same = header.descr == t.descr ||
                      (t.descr[0] == '|' && header.descr == "<" + std::string(t.descr.substr(1)));
    if (same) return t.dtype;
  }
  const char kind = header.descr.size() > 1 ? header.descr[1] : '?';
  if (kind == 'S' || kind == 'U')
    return unsupported("it holds strings ('{}'), not numbers", header.descr);
  return unsupported("element type '{}' is none of <f8 <f4 <f2 <i8 <i4 |i1 |u1 |b1", header.descr);
}

Result<TensorType> npy_type(const NpyHeader& header, uint64_t data_bytes) {
  HONE_ASSIGN(const DType dtype, npy_dtype(header));
  const Result<int64_t> bytes = checked_bytes(header.shape, dtype);
  if (!bytes.ok()) return invalid_model("{}", bytes.status().message());
  const TensorType type{dtype, header.shape};
  if (static_cast<uint64_t>(*bytes) != data_bytes)
    return invalid_model("the array claims to be {}, which takes {} bytes, but has {}", type,
                         *bytes, data_bytes);
  return type;
}

Result<TensorData> npy_tensor(TensorType type, Order order, std::span<const std::byte> data,
                              std::shared_ptr<const void> owner) {
  HONE_TRY(check_bools(type, data));
  if (order == Order::fortran && type.shape.rank() > 1) {
    HONE_ASSIGN(TensorData out, TensorData::allocate(type));
    copy_from_fortran(data.data(), static_cast<std::byte*>(out.mutable_data()), type.shape,
                      size_of(type.dtype));
    return out;
  }
  if (owner && reinterpret_cast<uintptr_t>(data.data()) % kAlignment == 0)
    return TensorData::borrow(type, data.data(), std::move(owner));
  return TensorData::copy_of(type, data);
}

Result<TensorData> npy_tensor(Order order, TensorData raw) {
  if (order == Order::fortran && raw.shape().rank() > 1)
    return npy_tensor(raw.type(), order, raw.as_bytes(), nullptr);
  HONE_TRY(check_bools(raw.type(), raw.as_bytes()));
  return raw;
}

Result<std::vector<std::string>> npy_strings(const NpyHeader& header,
                                             std::span<const std::byte> data) {
  const char kind = header.descr.size() > 1 ? header.descr[1] : '?';
  const bool wide = kind == 'U' && header.descr[0] == '<';
  if (!wide && kind != 'S')
    return unsupported("it holds numbers ('{}'), not strings", header.descr);
  int64_t length = 0;
  for (char c : std::string_view(header.descr).substr(2)) {
    if (c < '0' || c > '9' || length > (1 << 24)) return bad_header();
    length = length * 10 + (c - '0');
  }
  // One element takes width bytes; counted as that many u8.
  const int64_t width = wide ? 4 * length : length;
  const Result<int64_t> elements = checked_bytes(header.shape, DType::u8);
  if (!elements.ok()) return invalid_model("{}", elements.status().message());
  const bool fits =
      width == 0 ? data.empty() && *elements <= static_cast<int64_t>(kMostHeader)
                 : data.size() % static_cast<size_t>(width) == 0 &&
                       data.size() / static_cast<size_t>(width) == static_cast<size_t>(*elements);
  if (!fits)
    return invalid_model("the array claims {} strings of {} bytes, but has {} bytes", *elements,
                         width, data.size());
  std::vector<std::string> out(static_cast<size_t>(*elements));
  const std::byte* p = data.data();
  for (std::string& s : out) {
    for (int64_t i = 0; i < length; ++i, p += wide ? 4 : 1) {
      const uint32_t c = wide ? load_le<uint32_t>(p) : static_cast<uint32_t>(*p);
      if (c > 0x10ffff) return invalid_model("the array of strings has a character beyond Unicode");
      if (wide)
        append_utf8(s, c);
      else
        s += static_cast<char>(c);
    }
    s.erase(s.find_last_not_of('\0') + 1);  // NumPy fills short strings up with zeros
  }
  return out;
}

std::string make_npy_header(const TensorType& type) {
  std::string shape = "(";
  for (int64_t d : type.shape) shape += format("{}, ", d);
  if (type.shape.rank() > 1) shape.resize(shape.size() - 2);
  if (type.shape.rank() == 1) shape.resize(shape.size() - 1);  // "(3,)"
  std::string_view descr;
  for (const NamedType& t : kTypes)
    if (t.dtype == type.dtype) descr = t.descr;
  std::string text =
      format("{'descr': '{}', 'fortran_order': False, 'shape': {}), }", descr, shape);
  const size_t total = (10 + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(total - 11, ' ');
  text += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\x00';
  char length[2];
  store_le<uint16_t>(length, static_cast<uint16_t>(text.size()));
  return out.append(length, 2) + text;
}

Result<TensorData> read_npy(const std::string& path) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto read = [&]() -> Result<TensorData> {
    HONE_ASSIGN(const NpyHeader header, parse_npy_header(file.bytes()));
    const std::span<const std::byte> data = file.bytes().subspan(header.data_at);
    HONE_ASSIGN(const TensorType type, npy_type(header, data.size()));
    return npy_tensor(type, header.order, data, file.owner());
  };
  Result<TensorData> t = read();
  if (!t.ok()) return t.status().with_context(path);
  return t;
}

Status write_npy(const std::string& path, const TensorData& t) {
  if (!t.defined()) return invalid("cannot write '{}': the tensor is undefined", path);
  TensorData data = t;
  if (t.dtype() == DType::bf16) {
    HONE_ASSIGN(data, cast(t, DType::f32));
  }
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HONE_TRY(file.append(make_npy_header(data.type())));
  HONE_TRY(file.append(data.as_bytes()));
  return file.commit();
}

}  // namespace hone
