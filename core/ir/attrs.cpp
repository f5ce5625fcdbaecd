// SPDX-License-Identifier: Apache-2.0
// Walking and printing of attributes.
#include "hone/op.hpp"

namespace hone {

namespace {

// Collects "name=value" texts.
class Printer final : public AttrVisitor {
 public:
  std::vector<std::string> texts;
  void field(std::string_view name, bool& v) override { add(name, v ? "true" : "false"); }
  void field(std::string_view name, int64_t& v) override { add(name, format("{}", v)); }
  void field(std::string_view name, double& v) override { add(name, format("{}", v)); }
  void field(std::string_view name, std::string& v) override { add(name, format("'{}'", v)); }
  void field(std::string_view name, std::vector<int64_t>& v) override { add_list(name, v); }
  void field(std::string_view name, std::vector<double>& v) override { add_list(name, v); }
  void field(std::string_view name, DType& v) override { add(name, to_string(v)); }
  void field(std::string_view name, TensorData& v) override {
    add(name, v.defined() ? describe(v, 16) : "none");
  }
  void field(std::string_view name, GraphPtr& v) override {
    add(name, v ? format("graph of {} nodes", v->nodes.size()) : std::string("none"));
  }
  void enum_field(std::string_view name, int& v, std::span<const std::string_view> names) override {
    add(name, names[static_cast<size_t>(v)]);
  }

 private:
  void add(std::string_view name, std::string_view value) {
    texts.push_back(format("{}={}", name, value));
  }
  template <class T>
  void add_list(std::string_view name, const std::vector<T>& v) {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); ++i) out += format(i ? ", {}" : "{}", v[i]);
    add(name, out + "]");
  }
};

std::vector<std::string> texts_of(const Attrs& attrs) {
  Printer p;
  attrs.visit(p);
  return std::move(p.texts);
}

// Exact comparison: printing would round doubles and elide tensors.
class Flattener final : public AttrVisitor {
 public:
  std::string bytes;
  void field(std::string_view, bool& v) override { raw(&v, sizeof v); }
  void field(std::string_view, int64_t& v) override { raw(&v, sizeof v); }
  void field(std::string_view, double& v) override { raw(&v, sizeof v); }
  void field(std::string_view, std::string& v) override { sized(v.data(), v.size()); }
  void field(std::string_view, std::vector<int64_t>& v) override {
    sized(v.data(), v.size() * sizeof(int64_t));
  }
  void field(std::string_view, std::vector<double>& v) override {
    sized(v.data(), v.size() * sizeof(double));
  }
  void field(std::string_view, DType& v) override { raw(&v, sizeof v); }
  void field(std::string_view, TensorData& v) override {
    if (!v.defined()) return sized("", 0);
    const std::string type = to_string(v.type());
    sized(type.data(), type.size());
    sized(v.data(), static_cast<size_t>(v.bytes()));
  }
  void field(std::string_view name, GraphPtr& v) override {
    if (!v) return sized("", 0);
    const std::string text = print(*v);  // elides the content of tensors, which follows
    sized(text.data(), text.size());
    for (ValueInfo info : v->values) field(name, info.data);
    for (const Node& n : v->nodes) {
      const std::string attrs = exact_bytes(n.attrs);
      sized(attrs.data(), attrs.size());
    }
  }
  void enum_field(std::string_view, int& v, std::span<const std::string_view>) override {
    raw(&v, sizeof v);
  }

 private:
  void raw(const void* p, size_t n) { bytes.append(static_cast<const char*>(p), n); }
  void sized(const void* p, size_t n) {
    raw(&n, sizeof n);
    raw(p, n);
  }
};

}  // namespace

Attrs Attrs::edited(AttrVisitor& editor) const {
  if (!schema_) return {};
  const std::shared_ptr<void> copy = schema_->copy(data_.get());
  schema_->visit(copy.get(), editor);
  return Attrs(schema_, copy);
}

void Attrs::visit(AttrVisitor& visitor) const { (void)edited(visitor); }

std::string to_string(const Attrs& attrs, AttrText which) {
  if (attrs.empty()) return "";
  const std::vector<std::string> texts = texts_of(attrs);
  const std::vector<std::string> defaults = texts_of(Attrs::defaults(*attrs.schema()));
  std::string out;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (which == AttrText::changed && texts[i] == defaults[i]) continue;
    if (!out.empty()) out += ", ";
    out += texts[i];
  }
  return out;
}

std::string exact_bytes(const Attrs& attrs) {
  Flattener f;
  attrs.visit(f);
  return std::move(f.bytes);
}

bool same(const Attrs& a, const Attrs& b) {
  return a.schema() == b.schema() && exact_bytes(a) == exact_bytes(b);
}

}  // namespace hone
