// SPDX-License-Identifier: Apache-2.0
// Einsum: operands are contracted two at a time, each time as one batched matrix product.
#include <algorithm>
#include <string>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"

namespace hone {

namespace {

// The axes that "..." stands for have labels of their own, counted from the last one.
using Labels = std::vector<int>;
constexpr int kEllipsis = 256;

struct Equation {
  std::vector<Labels> in;
  Labels out;
};

bool has(const Labels& l, int label) { return std::find(l.begin(), l.end(), label) != l.end(); }
int position(const Labels& l, int label) {
  return static_cast<int>(std::find(l.begin(), l.end(), label) - l.begin());
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The labels of one term for `rank` axes, of which "..." takes what the letters leave. A negative
// rank: the ellipsis takes `ellipsis` axes.
Result<Labels> term(std::string_view text, int rank, int ellipsis) {
  const size_t dots = text.find("...");
  const int letters = static_cast<int>(
      text.size() - static_cast<size_t>(std::count(text.begin(), text.end(), '.')));
  if (rank >= 0) ellipsis = dots == std::string_view::npos ? 0 : rank - letters;
  if (ellipsis < 0 || (rank >= 0 && letters + ellipsis != rank))
    return invalid("'{}' does not fit {} axes", text, rank);
  Labels out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (int k = ellipsis; k > 0; --k) out.push_back(kEllipsis + k);
      i += 2;
    } else if (is_letter(text[i])) {
      out.push_back(text[i]);
    } else {
      return invalid("'{}' has the character '{}'", text, text.substr(i, 1));
    }
  }
  return out;
}

// Without "->": what occurs once, in order of the alphabet, after the ellipsis.
Labels implied_output(const Equation& e, int ellipsis) {
  Labels out, letters;
  for (int k = ellipsis; k > 0; --k) out.push_back(kEllipsis + k);
  for (const Labels& l : e.in)
    for (int label : l)
      if (label < kEllipsis) letters.push_back(label);
  std::sort(letters.begin(), letters.end());
  for (int label : letters)
    if (std::count(letters.begin(), letters.end(), label) == 1) out.push_back(label);
  return out;
}

Result<Equation> parse(std::string_view given, std::span<const Shape> shapes) {
  std::string text(given);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string_view terms = std::string_view(text).substr(0, arrow);
  Equation e;
  int ellipsis = 0;
  for (size_t i = 0;; ++i) {
    const size_t comma = terms.find(',');
    if (i >= shapes.size()) return invalid("'{}' has more terms than operands", given);
    HONE_ASSIGN(Labels l, term(terms.substr(0, comma), shapes[i].rank(), 0));
    ellipsis = std::max(ellipsis, static_cast<int>(std::count_if(
                                      l.begin(), l.end(), [](int x) { return x > kEllipsis; })));
    e.in.push_back(std::move(l));
    if (comma == std::string_view::npos) break;
    terms.remove_prefix(comma + 1);
  }
  if (e.in.size() != shapes.size())
    return invalid("'{}' has {} terms for {} operands", given, e.in.size(), shapes.size());
  if (arrow == std::string::npos) {
    e.out = implied_output(e, ellipsis);
    return e;
  }
  HONE_ASSIGN(e.out, term(std::string_view(text).substr(arrow + 2), -1, ellipsis));
  for (int label : e.out) {
    const bool known =
        std::any_of(e.in.begin(), e.in.end(), [&](const Labels& l) { return has(l, label); });
    if (!known || std::count(e.out.begin(), e.out.end(), label) > 1)
      return invalid("the output of '{}' repeats a label, or has one of its own", given);
  }
  return e;
}

// The extent of each label, 1 being broadcast; 0 in the list means not seen.
Result<int64_t> extent_of(int label, const Equation& e, std::span<const Shape> shapes) {
  int64_t extent = 1;
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t k = 0; k < e.in[i].size(); ++k) {
      if (e.in[i][k] != label) continue;
      const int64_t n = shapes[i][static_cast<int>(k)];
      if (n == extent || n == 1) continue;
      if (extent != 1) return invalid("a label stands for extents {} and {}", extent, n);
      extent = n;
    }
  return extent;
}

Status infer_einsum(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  std::vector<Shape> shapes;
  for (int i = 0; i < c.size(); ++i) {
    HONE_TRY(need_same_dtype(c, 0, i));
    shapes.push_back(c.shape(i));
  }
  const auto e = parse(c.attrs<EinsumAttrs>().equation, shapes);
  if (!e.ok()) return e.status().with_context(c.who());
  for (const Labels& l : e->in)
    for (int label : l) {
      const auto n = extent_of(label, *e, shapes);
      if (!n.ok()) return n.status().with_context(c.who());
    }
  std::vector<int64_t> out;
  for (int label : e->out) {
    HONE_ASSIGN(const int64_t n, extent_of(label, *e, shapes));
    out.push_back(n);
  }
  const auto shape = Shape::make(out);
  if (!shape.ok()) return shape.status().with_context(c.who());
  const DType t = c.dtype(0);
  if (shapes.size() > 1 && !is_float(t) && t != DType::i32 && t != DType::i64)
    return c.error("multiplies floating-point, i32 or i64 operands, got {}", t);
  c.out(t, *shape);
  return {};
}

// A value and what its axes are called.
struct Operand {
  Value v;
  Labels labels;
  int64_t extent(int label) const { return v.shape()[position(labels, label)]; }
};

Operand permuted(const Operand& o, const Labels& order) {
  std::vector<int64_t> perm;
  for (int label : order) perm.push_back(position(o.labels, label));
  if (std::is_sorted(perm.begin(), perm.end())) return {o.v, order};
  return {ops::transpose(o.v, perm), order};
}

// A label that occurs twice: its diagonal.
Operand without_repeats(Operand o) {
  for (size_t i = 0; i < o.labels.size(); ++i) {
    const int label = o.labels[i];
    const auto again =
        std::find(o.labels.begin() + static_cast<ptrdiff_t>(i) + 1, o.labels.end(), label);
    if (again == o.labels.end()) continue;
    // The two axes side by side at the front become one, of which every (n + 1)-th is taken.
    const int64_t first = static_cast<int64_t>(i), second = again - o.labels.begin();
    std::vector<int64_t> perm = {first, second};
    Labels rest = {label};
    for (int64_t k = 0; k < static_cast<int64_t>(o.labels.size()); ++k)
      if (k != first && k != second) {
        perm.push_back(k);
        rest.push_back(o.labels[static_cast<size_t>(k)]);
      }
    const Value turned = ops::transpose(o.v, perm);
    if (!turned.valid()) return {Value(), rest};
    const int64_t n = turned.shape()[0];
    Shape flat = turned.shape();
    flat.erase(0);
    flat[0] = n * n;
    std::vector<int64_t> at;
    for (int64_t k = 0; k < n; ++k) at.push_back(k * (n + 1));
    const Value all = ops::reshape(turned, flat);
    return without_repeats({ops::gather(all, all.builder().ints(at), 0), rest});
  }
  return o;
}

// Sums over the labels that nobody else asks for.
Operand summed(Operand o, const auto& keep) {
  ReduceAttrs over{{}, false};
  Labels left;
  for (size_t i = 0; i < o.labels.size(); ++i) {
    if (keep(o.labels[i]))
      left.push_back(o.labels[i]);
    else
      over.axes.push_back(static_cast<int64_t>(i));
  }
  return over.axes.empty() ? o : Operand{ops::sum(o.v, over), left};
}

// How many axes the product of two operands has: `wanted` ones and those of one side only.
size_t product_rank(const Operand& a, const Operand& b, const Labels& wanted) {
  size_t n = 0;
  for (int label : a.labels) n += !has(b.labels, label) || has(wanted, label);
  for (int label : b.labels) n += !has(a.labels, label);
  return n;
}

// One matrix product: (batch.., left.., shared..) times (batch.., shared.., right..).
Operand product(Operand a, Operand b, const Labels& wanted) {
  Labels batch, left, right, shared;
  for (int label : a.labels) {
    if (!has(b.labels, label))
      left.push_back(label);
    else if (a.extent(label) != b.extent(label)) {
      // One of them is broadcast: to the other's extent.
      Operand& narrow = a.extent(label) == 1 ? a : b;
      const int64_t n = std::max(a.extent(label), b.extent(label));
      Shape wide = narrow.v.shape();
      wide[position(narrow.labels, label)] = n;
      narrow.v = ops::expand(narrow.v, wide);
      (has(wanted, label) ? batch : shared).push_back(label);
    } else {
      (has(wanted, label) ? batch : shared).push_back(label);
    }
  }
  for (int label : b.labels)
    if (!has(a.labels, label)) right.push_back(label);
  const auto join = [](std::initializer_list<const Labels*> parts) {
    Labels all;
    for (const Labels* p : parts) all.insert(all.end(), p->begin(), p->end());
    return all;
  };
  a = permuted(a, join({&batch, &left, &shared}));
  b = permuted(b, join({&batch, &shared, &right}));
  if (!a.v.valid() || !b.v.valid()) return {};
  const auto size = [](const Operand& o, const Labels& labels) {
    int64_t n = 1;
    for (int label : labels) n *= o.extent(label);
    return n;
  };
  const Value y = ops::matmul(ops::reshape(a.v, {size(a, batch), size(a, left), size(a, shared)}),
                              ops::reshape(b.v, {size(b, batch), size(b, shared), size(b, right)}));
  Shape s;
  for (int label : batch) s.push_back(a.extent(label));
  for (int label : left) s.push_back(a.extent(label));
  for (int label : right) s.push_back(b.extent(label));
  return {ops::reshape(y, s), join({&batch, &left, &right})};
}

void decompose_einsum(DecomposeCtx& c) {
  std::vector<Shape> shapes;
  for (int i = 0; i < c.size(); ++i) shapes.push_back(c.shape(i));
  const auto e = parse(c.attrs<EinsumAttrs>().equation, shapes);
  if (!e.ok()) return c.fail(e.status().message());
  Operand total;
  for (int i = 0; i < c.size(); ++i) {
    Labels wanted = e->out;
    for (size_t k = static_cast<size_t>(i) + 1; k < e->in.size(); ++k)
      wanted.insert(wanted.end(), e->in[k].begin(), e->in[k].end());
    Operand o = without_repeats({c.in(i), e->in[static_cast<size_t>(i)]});
    o = summed(o, [&](int l) { return has(wanted, l) || has(total.labels, l); });
    if (i == 0) {
      total = o;
      continue;
    }
    total = summed(total, [&](int l) { return has(wanted, l) || has(o.labels, l); });
    if (product_rank(total, o, wanted) > static_cast<size_t>(kMaxRank))
      return c.fail(format("an intermediate result has more than {} axes", kMaxRank));
    total = product(total, o, wanted);
    if (!total.v.valid()) return;
  }
  c.set(0, permuted(total, e->out).v);
}

}  // namespace

// einsum(x..): the sum of products that the equation names (ONNX Einsum, NumPy's meaning).
const OpDef op::einsum = {
    .name = "einsum",
    .attrs = &kAttrSchema<EinsumAttrs>,
    .min_inputs = 1,
    .max_inputs = kAnyNumber,
    .infer = infer_einsum,
    .decompose = decompose_einsum,
    .diff = Diff::by_decomposition,
};

}  // namespace hone
