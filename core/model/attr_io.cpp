// SPDX-License-Identifier: Apache-2.0
// Two visitors over attribute structs: one writes what differs from the defaults, one fills in what
// was stored.
#include "core/model/attr_io.hpp"

#include <algorithm>

namespace hone {

namespace {

template <class T>
std::string bits(const T* p, size_t n = 1) {
  return std::string(reinterpret_cast<const char*>(p), n * sizeof(T));
}

// Walks the defaults first and notes their bits, then the attributes, which are written where the
// bits differ.
class FieldWriter final : public AttrVisitor {
 public:
  FieldWriter(FileWriter& w, const WriteBody& write_body) : w_(w), write_body_(write_body) {}

  OffsetVector<Offset<schema::Attr>> write(const Attrs& attrs) {
    Attrs::defaults(*attrs.schema()).visit(*this);
    writing_ = true;
    attrs.visit(*this);
    return w_.tables(attrs_);
  }

  void field(std::string_view name, bool& v) override {
    if (differs(bits(&v))) add(name, schema::CreateBoolAttr(w_.header(), v));
  }
  void field(std::string_view name, int64_t& v) override {
    if (differs(bits(&v))) add(name, schema::CreateIntAttr(w_.header(), v));
  }
  void field(std::string_view name, double& v) override {
    if (differs(bits(&v))) add(name, schema::CreateFloatAttr(w_.header(), v));
  }
  void field(std::string_view name, std::string& v) override {
    if (differs(v)) add(name, schema::CreateStringAttr(w_.header(), w_.text(v)));
  }
  void field(std::string_view name, std::vector<int64_t>& v) override {
    if (differs(bits(v.data(), v.size())))
      add(name, schema::CreateIntsAttr(w_.header(), w_.list<int64_t>(v)));
  }
  void field(std::string_view name, std::vector<double>& v) override {
    if (differs(bits(v.data(), v.size())))
      add(name, schema::CreateFloatsAttr(w_.header(), w_.list<double>(v)));
  }
  void field(std::string_view name, DType& v) override {
    if (differs(bits(&v))) add(name, schema::CreateDTypeAttr(w_.header(), to_schema(v)));
  }
  void field(std::string_view name, TensorData& v) override {
    std::string key;
    if (v.defined()) key = to_string(v.type()) + bits(v.as_bytes().data(), v.as_bytes().size());
    if (!differs(std::move(key))) return;
    add(name, schema::CreateTensorAttr(w_.header(),
                                       v.defined() ? w_.tensor(v) : Offset<schema::Tensor>()));
  }
  void field(std::string_view name, GraphPtr& v) override {
    if (differs(v ? "body" : "")) add(name, schema::CreateGraphAttr(w_.header(), write_body_(*v)));
  }
  void enum_field(std::string_view name, int& v, std::span<const std::string_view> names) override {
    if (differs(bits(&v)))
      add(name, schema::CreateEnumAttr(w_.header(), w_.text(names[static_cast<size_t>(v)])));
  }

 private:
  bool differs(std::string value) {
    if (writing_) return defaults_[next_++] != value;
    defaults_.push_back(std::move(value));
    return false;
  }

  template <class T>
  void add(std::string_view name, Offset<T> value) {
    const Text text = w_.text(name);
    attrs_.push_back(schema::CreateAttr(w_.header(), text, schema::AttrValueTraits<T>::enum_value,
                                        value.Union()));
  }

  FileWriter& w_;
  const WriteBody& write_body_;
  bool writing_ = false;
  std::vector<std::string> defaults_;
  size_t next_ = 0;
  std::vector<Offset<schema::Attr>> attrs_;
};

// Looks each field up among the stored attributes.
class FieldReader final : public AttrVisitor {
 public:
  FieldReader(FileReader& r, std::string_view who, const ReadBody& read_body)
      : r_(r), who_(who), read_body_(read_body) {}

  Status add(const schema::Attr& attr) {
    HONE_ASSIGN(std::string name, r_.text(attr.name()));
    if (name.empty()) return invalid_model("{}: has an attribute without a name", who_);
    for (const Stored& s : stored_)
      if (s.name == name) return invalid_model("{}: attribute '{}' is given twice", who_, name);
    stored_.push_back({std::move(name), &attr, false});
    return {};
  }

  Status finish() const {
    HONE_TRY(status_);
    for (const Stored& s : stored_)
      if (!s.used)
        return invalid_model("{}: this Hone knows no attribute '{}' (the file was {})", who_,
                             s.name, r_.producer());
    return {};
  }

  void field(std::string_view name, bool& v) override {
    if (const auto* a = find<schema::BoolAttr>(name)) v = a->value();
  }
  void field(std::string_view name, int64_t& v) override {
    if (const auto* a = find<schema::IntAttr>(name)) v = a->value();
  }
  void field(std::string_view name, double& v) override {
    if (const auto* a = find<schema::FloatAttr>(name)) v = a->value();
  }
  void field(std::string_view name, std::string& v) override {
    if (const auto* a = find<schema::StringAttr>(name)) take(v, r_.text(a->value()));
  }
  void field(std::string_view name, std::vector<int64_t>& v) override {
    if (const auto* a = find<schema::IntsAttr>(name)) take(v, r_.list(a->value()));
  }
  void field(std::string_view name, std::vector<double>& v) override {
    if (const auto* a = find<schema::FloatsAttr>(name)) take(v, r_.list(a->value()));
  }
  void field(std::string_view name, DType& v) override {
    if (const auto* a = find<schema::DTypeAttr>(name)) take(v, read_dtype(a->value(), who_));
  }
  void field(std::string_view name, TensorData& v) override {
    const auto* a = find<schema::TensorAttr>(name);
    if (!a) return;
    v = TensorData();
    if (a->value()) take(v, r_.tensor(a->value(), format("{}: attribute '{}'", who_, name)));
  }
  void field(std::string_view name, GraphPtr& v) override {
    if (const auto* a = find<schema::GraphAttr>(name)) take(v, read_body_(a->value()));
  }
  void enum_field(std::string_view name, int& v, std::span<const std::string_view> names) override {
    const auto* a = find<schema::EnumAttr>(name);
    if (!a) return;
    std::string text;
    if (!take(text, r_.text(a->value()))) return;
    const auto at = std::find(names.begin(), names.end(), text);
    if (at == names.end())
      fail(invalid_model("{}: attribute '{}' has the unknown value '{}' (the file was {})", who_,
                         name, text, r_.producer()));
    else
      v = static_cast<int>(at - names.begin());
  }

 private:
  struct Stored {
    std::string name;
    const schema::Attr* attr;
    bool used;
  };

  // The stored value of that name and kind, or null.
  template <class T>
  const T* find(std::string_view name) {
    for (Stored& s : stored_) {
      if (s.name != name) continue;
      s.used = true;
      if (s.attr->value() && s.attr->value_type() == schema::AttrValueTraits<T>::enum_value)
        return static_cast<const T*>(s.attr->value());
      fail(invalid_model("{}: attribute '{}' is of another kind than the operator's", who_, name));
    }
    return nullptr;
  }

  template <class T>
  bool take(T& to, Result<T> from) {
    if (from.ok())
      to = std::move(*from);
    else
      fail(from.status());
    return from.ok();
  }

  void fail(Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

  FileReader& r_;
  std::string_view who_;
  const ReadBody& read_body_;
  std::vector<Stored> stored_;
  Status status_;
};

}  // namespace

OffsetVector<Offset<schema::Attr>> write_attrs(FileWriter& w, const Attrs& attrs,
                                               const WriteBody& write_body) {
  return FieldWriter(w, write_body).write(attrs);
}

Result<Attrs> read_attrs(FileReader& r, const AttrSchema& schema,
                         const flatbuffers::Vector<Offset<schema::Attr>>* attrs,
                         std::string_view who, const ReadBody& read_body) {
  // No operator has anywhere near as many; the look-up below is linear.
  constexpr uint32_t kMost = 256;
  if (attrs && attrs->size() > kMost)
    return invalid_model("{}: has {} attributes, at most {} are possible", who, attrs->size(),
                         kMost);
  FieldReader reader(r, who, read_body);
  if (attrs)
    for (const schema::Attr* attr : *attrs) HONE_TRY(reader.add(*attr));
  const std::shared_ptr<void> data = schema.make();
  schema.visit(data.get(), reader);
  HONE_TRY(reader.finish());
  return Attrs(&schema, data);
}

}  // namespace hone
