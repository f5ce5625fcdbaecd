// SPDX-License-Identifier: Apache-2.0
// Attributes of operators: a plain struct declared once; saving, loading, printing and importing
// follow from it.
//
//   struct AxisAttrs {
//     int64_t axis = -1;
//     template <class F> static void fields(AxisAttrs& a, F f) { f("axis", a.axis); }
//   };
//
// An enumeration used as a field offers its names by argument-dependent lookup:
//   std::span<const std::string_view> enum_names(PadMode);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hone/tensor_data.hpp"

namespace hone {

struct Graph;

/// The body of a control operator. Shared: graphs are copied often, bodies never change.
using GraphPtr = std::shared_ptr<const Graph>;

/// Sees each field of an attribute struct, in order of declaration.
class AttrVisitor {
 public:
  virtual ~AttrVisitor() = default;
  virtual void field(std::string_view name, bool& v) = 0;
  virtual void field(std::string_view name, int64_t& v) = 0;
  virtual void field(std::string_view name, double& v) = 0;
  virtual void field(std::string_view name, std::string& v) = 0;
  virtual void field(std::string_view name, std::vector<int64_t>& v) = 0;
  virtual void field(std::string_view name, std::vector<double>& v) = 0;
  virtual void field(std::string_view name, DType& v) = 0;
  virtual void field(std::string_view name, TensorData& v) = 0;
  virtual void field(std::string_view name, GraphPtr& v) = 0;
  /// An enumeration as its index in `names`.
  virtual void enum_field(std::string_view name, int& v,
                          std::span<const std::string_view> names) = 0;
};

/// Sees nothing but what a derived class looks at. (A class that saves or compares derives from
/// AttrVisitor, which leaves no kind of field out. `using SomeFields::field;` keeps the others.)
class SomeFields : public AttrVisitor {
 public:
  void field(std::string_view, bool&) override {}
  void field(std::string_view, int64_t&) override {}
  void field(std::string_view, double&) override {}
  void field(std::string_view, std::string&) override {}
  void field(std::string_view, std::vector<int64_t>&) override {}
  void field(std::string_view, std::vector<double>&) override {}
  void field(std::string_view, DType&) override {}
  void field(std::string_view, TensorData&) override {}
  void field(std::string_view, GraphPtr&) override {}
  void enum_field(std::string_view, int&, std::span<const std::string_view>) override {}
};

/// How to make and walk one attribute struct. One object per type; its address is the type's
/// identity.
struct AttrSchema {
  std::shared_ptr<void> (*make)();
  std::shared_ptr<void> (*copy)(const void*);
  void (*visit)(void*, AttrVisitor&);
};

namespace detail {
struct FieldAdapter {
  AttrVisitor& visitor;
  template <class T>
  void operator()(std::string_view name, T& v) const {
    if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
      int index = static_cast<int>(v);
      visitor.enum_field(name, index, enum_names(T{}));
      v = static_cast<T>(index);
    } else {
      visitor.field(name, v);
    }
  }
};
}  // namespace detail

template <class A>
inline constexpr AttrSchema kAttrSchema = {
    []() -> std::shared_ptr<void> { return std::make_shared<A>(); },
    [](const void* a) -> std::shared_ptr<void> {
      return std::make_shared<A>(*static_cast<const A*>(a));
    },
    [](void* a, AttrVisitor& v) { A::fields(*static_cast<A*>(a), detail::FieldAdapter{v}); },
};

/// For operators without attributes.
struct NoAttrs {
  template <class F>
  static void fields(NoAttrs&, F) {}
};

/// The attributes of one node: an immutable struct of any declared type. Copies share it (graphs
/// are copied often and attributes never change), which is why it is a shared pointer.
class Attrs {
 public:
  Attrs() = default;  ///< Empty: the operator's defaults.
  template <class A>
  requires requires(A& a) {
    A::fields(a, [](std::string_view, auto&) {});
  }
  Attrs(A a)
      : schema_(&kAttrSchema<A>), data_(std::make_shared<const A>(std::move(a))) {}  // NOLINT
  static Attrs defaults(const AttrSchema& schema) { return Attrs(&schema, schema.make()); }
  Attrs(const AttrSchema* schema, std::shared_ptr<const void> data)
      : schema_(schema), data_(std::move(data)) {}

  bool empty() const { return data_ == nullptr; }
  const AttrSchema* schema() const { return schema_; }
  template <class A>
  bool is() const {
    return schema_ == &kAttrSchema<A>;
  }
  /// The struct; its type must be the one stored (the Builder has checked it against the operator).
  template <class A>
  const A& as() const {
    assert(is<A>());
    return *static_cast<const A*>(data_.get());
  }
  /// Shows each field to `visitor`; changes it makes go to a copy that is then dropped.
  void visit(AttrVisitor& visitor) const;
  /// A copy with the changes that `editor` makes.
  Attrs edited(AttrVisitor& editor) const;

 private:
  const AttrSchema* schema_ = nullptr;
  std::shared_ptr<const void> data_;
};

/// "axis=-1, keepdims=true"; the fields that differ from their defaults, or all of them.
enum class AttrText { changed, all };
std::string to_string(const Attrs& attrs, AttrText which = AttrText::all);

/// The exact content as bytes, for comparing and hashing; two attribute structs of one schema are
/// equal when these are.
std::string exact_bytes(const Attrs& attrs);

/// Same schema and same values.
bool same(const Attrs& a, const Attrs& b);

}  // namespace hone
