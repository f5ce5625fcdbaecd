// SPDX-License-Identifier: Apache-2.0
// Several recordings of one piece of code, which differ in the extents of named dimensions, become
// one graph.
//
// The recordings must have the same operations in the same order. Where attributes differ they are
// numbers that came from shapes; each is written in a way that follows the shape: an extent that a
// reshape keeps is 0, the last one left over is -1, the end of a slice counts from the back, and a
// shape whose entries are multiples of extents and of their products is computed from shapes. What
// cannot be written so has frozen the dimension and is named.
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "core/runtime/tracer.hpp"

namespace hone::detail {

namespace {

using Ints = std::vector<int64_t>;

class Merge {
 public:
  explicit Merge(std::span<const Recording> runs)
      : runs_(runs), from_(runs[0].graph), b_(to_, Composites::keep) {
    map_.resize(from_.values.size());
  }

  Result<Graph> run() {
    to_.name = from_.name;
    to_.dim_names = from_.dim_names;
    for (ValueId v : from_.inputs) map(v) = b_.input(from_.type(v), from_.value(v).name);
    for (size_t i = 0; i < from_.values.size(); ++i) copy_value(static_cast<ValueId>(i));
    for (size_t r = 1; r < runs_.size(); ++r)
      if (runs_[r].outputs.size() != runs_[0].outputs.size())
        return not_free(r, "the number of outputs changes");
    for (NodeId n = 0; n < static_cast<NodeId>(from_.nodes.size()); ++n) HONE_TRY(merge(n));
    for (size_t r = 1; r < runs_.size(); ++r)
      if (runs_[r].graph.nodes.size() != from_.nodes.size())
        return not_free(r, format("there are {} operations, and {}", from_.nodes.size(),
                                  runs_[r].graph.nodes.size()));
    for (size_t r = 1; r < runs_.size(); ++r)
      for (size_t i = 0; i < from_.outputs.size(); ++i)
        if (runs_[r].graph.outputs[i].value != from_.outputs[i].value)
          return not_free(r, format("output '{}' is another value", from_.outputs[i].name));
    for (const GraphOutput& o : from_.outputs) b_.output(map(o.value), o.name);
    for (const StateUpdate& u : from_.updates)
      to_.updates.push_back({map(u.state).id(), map(u.next).id()});
    if (!b_.status().ok()) return b_.status();
    return std::move(to_);
  }

 private:
  Value& map(ValueId v) { return map_[static_cast<size_t>(v)]; }
  const Node& node(size_t r, NodeId n) const { return runs_[r].graph.node(n); }
  // Extents of a value in run r.
  const Shape& shape(size_t r, ValueId v) const {
    return runs_[r].types[static_cast<size_t>(v)].shape;
  }

  void copy_value(ValueId id) {
    const ValueInfo& v = from_.value(id);
    if (v.kind == ValueKind::constant) map(id) = b_.constant(v.data, v.name);
    if (v.kind != ValueKind::state) return;
    map(id) = b_.state(v.role, v.data, v.name);
    to_.value(map(id).id()).trainable = v.trainable;
  }

  // Run r changed one dimension: which, and from what to what.
  Status not_free(size_t r, std::string_view what) const {
    for (size_t d = 0; d < runs_[0].extents.size(); ++d)
      if (runs_[r].extents[d] != runs_[0].extents[d])
        return invalid("trace: '{}' is not free: {} when it is {} instead of {}",
                       from_.dim_names[d], what, runs_[r].extents[d], runs_[0].extents[d]);
    return invalid("trace: two runs of the same code differ: {}", what);
  }

  Status merge(NodeId id) {
    const Node& n = node(0, id);
    bool same_attrs = true;
    for (size_t r = 1; r < runs_.size(); ++r) {
      if (id >= static_cast<NodeId>(runs_[r].graph.nodes.size()))
        return not_free(r, format("{} does not run", label(n)));
      const Node& other = node(r, id);
      if (other.op != n.op || other.inputs.size() != n.inputs.size() ||
          other.outputs.size() != n.outputs.size())
        return not_free(r, format("{} becomes {}", label(n), label(other)));
      for (size_t i = 0; i < n.inputs.size(); ++i) HONE_TRY(check_input(r, n, other, i));
      same_attrs = same_attrs && same(n.attrs, other.attrs);
    }
    b_.set_scope(n.name);
    b_.set_region(n.region);
    std::vector<Value> inputs;
    for (ValueId v : n.inputs) inputs.push_back(v == kNone ? Value() : map(v));
    std::vector<Value> outs;
    if (same_attrs) {
      outs = b_.emit_all(*n.op, inputs, n.attrs, static_cast<int>(n.outputs.size()));
    } else {
      HONE_ASSIGN(outs, emit_free(id, inputs));
    }
    if (!b_.status().ok()) return b_.status();
    HONE_ENSURE(outs.size() == n.outputs.size());
    for (size_t i = 0; i < outs.size(); ++i) map(n.outputs[i]) = outs[i];
    return {};
  }

  Status check_input(size_t r, const Node& n, const Node& other, size_t i) const {
    const ValueId a = n.inputs[i], b = other.inputs[i];
    if (a != b) return not_free(r, format("{} gets another value as input {}", label(n), i));
    if (a == kNone || from_.value(a).kind != ValueKind::constant) return {};
    const TensorData &x = from_.value(a).data, &y = runs_[r].graph.value(b).data;
    if (x.type() == y.type() && std::ranges::equal(x.as_bytes(), y.as_bytes())) return {};
    return not_free(r,
                    format("{} uses a constant of {} as input {}, which {}", label(n), x.type(), i,
                           x.type() == y.type() ? "has other values" : format("is {}", y.type())));
  }

  Status frozen(NodeId id) const {
    const Node& n = node(0, id);
    for (size_t r = 1; r < runs_.size(); ++r)
      if (!same(n.attrs, node(r, id).attrs))
        return not_free(
            r, format("{} with {} becomes {}", label(n), to_string(n.attrs, AttrText::changed),
                      to_string(node(r, id).attrs, AttrText::changed)));
    return internal("trace: nothing is frozen");
  }

  Result<std::vector<Value>> emit_free(NodeId id, std::span<const Value> inputs) {
    const Node& n = node(0, id);
    if (n.op == &op::reshape) {
      if (const auto shape = free_reshape(id))
        return std::vector<Value>{b_.emit(op::reshape, inputs, ShapeAttrs{*shape, false})};
      if (const Value shape = dynamic_shape(made_shapes(id), n.inputs[0]); shape.valid())
        return std::vector<Value>{
            b_.emit(op::reshape_dyn, {inputs[0], shape}, AllowZeroAttrs{true})};
    } else if (n.op == &op::expand) {
      if (const auto shape = free_expand(id))
        return std::vector<Value>{b_.emit(op::expand, inputs, ShapeAttrs{*shape, true})};
      if (const Value shape = dynamic_shape(shapes_of<ShapeAttrs>(id), n.inputs[0]); shape.valid())
        return std::vector<Value>{b_.emit(op::expand_dyn, {inputs[0], shape})};
    } else if (n.op == &op::fill) {
      const FillAttrs& a = n.attrs.as<FillAttrs>();
      if (const Value shape = dynamic_shape(shapes_of<FillAttrs>(id), kNone); shape.valid())
        return std::vector<Value>{b_.emit(op::fill_dyn, {shape}, FillDynAttrs{a.dtype, a.value})};
    } else if (n.op == &op::slice) {
      if (const auto attrs = free_slice(id))
        return std::vector<Value>{b_.emit(op::slice, inputs, *attrs)};
    }
    return frozen(id);
  }

  template <class A>
  std::vector<Ints> shapes_of(NodeId id) const {
    std::vector<Ints> out;
    for (size_t r = 0; r < runs_.size(); ++r) out.push_back(node(r, id).attrs.as<A>().shape);
    return out;
  }

  // What the operation makes, with no 0 or -1 to look up.
  std::vector<Ints> made_shapes(NodeId id) const {
    std::vector<Ints> out;
    for (size_t r = 0; r < runs_.size(); ++r) {
      const Shape& made = shape(r, node(r, id).outputs[0]);
      out.emplace_back(made.begin(), made.end());
    }
    return out;
  }

  // Whether a number that run r gives as `number(r)` is `other(r)` in every run.
  template <class F, class G>
  bool agree(F number, G other) const {
    for (size_t r = 0; r < runs_.size(); ++r)
      if (number(r) != other(r)) return false;
    return true;
  }

  std::optional<Ints> free_reshape(NodeId id) const {
    const std::vector<Ints> wanted = made_shapes(id);
    const ValueId in = node(0, id).inputs[0];
    Ints out = wanted[0];
    for (const Ints& w : wanted)
      if (w.size() != out.size() || std::count(w.begin(), w.end(), 0) != 0) return {};
    int open = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const auto entry = [&](size_t r) { return wanted[r][i]; };
      if (agree(entry, [&](size_t) { return out[i]; })) continue;
      const int axis = static_cast<int>(i);
      if (axis < shape(0, in).rank() &&
          agree(entry, [&](size_t r) { return shape(r, in)[axis]; })) {
        out[i] = 0;
      } else {
        out[i] = -1;
        ++open;
      }
    }
    if (open > 1) return {};
    return out;
  }

  // 1 keeps the input's extent.
  std::optional<Ints> free_expand(NodeId id) const {
    const std::vector<Ints> wanted = shapes_of<ShapeAttrs>(id);
    const ValueId in = node(0, id).inputs[0];
    Ints out = wanted[0];
    const int lead = static_cast<int>(out.size()) - shape(0, in).rank();
    for (size_t i = 0; i < out.size(); ++i) {
      const auto entry = [&](size_t r) { return wanted[r][i]; };
      if (agree(entry, [&](size_t) { return out[i]; })) continue;
      const int axis = static_cast<int>(i) - lead;
      if (axis < 0 || !agree(entry, [&](size_t r) { return shape(r, in)[axis]; })) return {};
      out[i] = 1;
    }
    return out;
  }

  std::optional<SliceAttrs> free_slice(NodeId id) const {
    const ValueId in = node(0, id).inputs[0];
    SliceAttrs out = node(0, id).attrs.as<SliceAttrs>();
    for (size_t r = 1; r < runs_.size(); ++r) {
      const SliceAttrs& a = node(r, id).attrs.as<SliceAttrs>();
      if (a.axes != out.axes || a.steps != out.steps || a.starts.size() != out.starts.size())
        return {};
    }
    for (size_t i = 0; i < out.starts.size(); ++i) {
      int axis = static_cast<int>(i < out.axes.size() ? out.axes[i] : static_cast<int64_t>(i));
      if (axis < 0) axis += shape(0, in).rank();
      // A position that keeps its distance to the end is counted from there.
      const auto from_back = [&](auto number, int64_t& position) {
        if (agree(number, [&](size_t) { return position; })) return true;
        const int64_t distance = position - shape(0, in)[axis];
        if (distance > 0 || !agree(number, [&](size_t r) { return shape(r, in)[axis] + distance; }))
          return false;
        position = distance == 0 ? INT64_MAX : distance;
        return true;
      };
      if (!from_back(
              [&](size_t r) { return node(r, id).attrs.template as<SliceAttrs>().starts[i]; },
              out.starts[i]))
        return {};
      if (!from_back([&](size_t r) { return node(r, id).attrs.template as<SliceAttrs>().ends[i]; },
                     out.ends[i]))
        return {};
    }
    return out;
  }

  // What an entry of a shape may follow: a named dimension, or an axis of the operation's input.
  struct Source {
    ValueId value;  // of `to_`, whose axis it is
    int axis;
    std::vector<int64_t> extents;  // in each run
  };

  std::vector<Source> sources(ValueId in) const {
    constexpr size_t kMost = 8;  // subsets of them are tried
    std::vector<Source> out;
    for (size_t d = 0; d < to_.dim_names.size() && out.size() < kMost; ++d) {
      Source s{kNone, 0, {}};
      for (const Recording& r : runs_) s.extents.push_back(r.extents[d]);
      for (ValueId v : to_.inputs)
        for (int axis = 0; axis < to_.type(v).shape.rank() && s.value == kNone; ++axis)
          if (to_.type(v).shape[axis] == -static_cast<int64_t>(d) - 1) s.value = v, s.axis = axis;
      if (s.value != kNone) out.push_back(std::move(s));
    }
    if (in == kNone) return out;
    for (int axis = 0; axis < shape(0, in).rank() && out.size() < kMost; ++axis) {
      Source s{map_[static_cast<size_t>(in)].id(), axis, {}};
      for (size_t r = 0; r < runs_.size(); ++r) s.extents.push_back(shape(r, in)[axis]);
      if (std::count(s.extents.begin(), s.extents.end(), s.extents[0]) !=
          static_cast<std::ptrdiff_t>(s.extents.size()))
        out.push_back(std::move(s));
    }
    return out;
  }

  // A number that is `up / down` times the product of some sources in every run.
  struct Ratio {
    unsigned members = 0;  // a bit for each source
    int64_t up = 0, down = 1;
  };

  // The fewest sources; among equals those that need no factor. One factor is chosen by the first
  // run and the others check it, so a number that is no such product is not taken for one.
  std::optional<Ratio> ratio_of(const Ints& number, std::span<const Source> all) const {
    std::optional<Ratio> best;
    const auto rank = [](const Ratio& r) {
      return 2 * std::popcount(r.members) + (r.up == r.down ? 0 : 1);
    };
    for (unsigned members = 1; members < 1u << all.size(); ++members) {
      const auto product = [&](size_t r) {
        int64_t p = 1;
        for (size_t i = 0; i < all.size(); ++i)
          if (members >> i & 1) p *= all[i].extents[r];
        return p;
      };
      const int64_t common = std::gcd(number[0], product(0));
      if (common == 0) continue;
      const Ratio ratio{members, number[0] / common, product(0) / common};
      bool holds = true;
      for (size_t r = 0; r < number.size(); ++r)
        holds = holds && number[r] * ratio.down == ratio.up * product(r);
      if (holds && (!best || rank(ratio) < rank(*best))) best = ratio;
    }
    return best;
  }

  Value emit_ratio(const Ratio& ratio, std::span<const Source> all) {
    Value out;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!(ratio.members >> i & 1)) continue;
      const Value extent = b_.emit(op::shape_of, {Value(&b_, all[i].value)},
                                   ShapeOfAttrs{all[i].axis, all[i].axis + 1});
      out = out.valid() ? b_.emit(op::mul, {out, extent}) : extent;
    }
    const int64_t up[] = {ratio.up}, down[] = {ratio.down};
    if (ratio.up != 1) out = b_.emit(op::mul, {out, b_.ints(up)});
    return ratio.down == 1 ? out : b_.emit(op::div, {out, b_.ints(down)});
  }

  // A shape as a value: constants, and where an entry changes, extents times each other and times a
  // fixed ratio. `in` is the operation's input, or none.
  Value dynamic_shape(const std::vector<Ints>& wanted, ValueId in) {
    const Ints first = wanted[0];
    for (const Ints& w : wanted)
      if (w.size() != first.size()) return {};
    const std::vector<Source> all = sources(in);
    std::vector<std::optional<Ratio>> ratios;
    for (size_t i = 0; i < first.size(); ++i) {
      Ints number;
      for (const Ints& w : wanted) number.push_back(w[i]);
      const bool fixed = std::count(number.begin(), number.end(), first[i]) ==
                         static_cast<std::ptrdiff_t>(number.size());
      ratios.push_back(fixed ? Ratio{0, first[i], 1} : ratio_of(number, all));
      if (!ratios.back()) return {};  // before anything is emitted
    }
    std::vector<Value> parts;
    for (const std::optional<Ratio>& r : ratios) {
      const int64_t fixed[] = {r->up};
      parts.push_back(r->members == 0 ? b_.ints(fixed) : emit_ratio(*r, all));
    }
    return parts.size() == 1 ? parts[0] : b_.emit(op::concat, parts, AxisAttrs{0});
  }

  std::span<const Recording> runs_;
  const Graph& from_;
  Graph to_;
  Builder b_;
  std::vector<Value> map_;
};

}  // namespace

Result<Graph> merge_recordings(std::span<const Recording> runs) { return Merge(runs).run(); }

}  // namespace hone::detail
