// SPDX-License-Identifier: Apache-2.0
// Element-wise expressions: which operators can be part of one, and how a group of nodes becomes
// one.
#if HONE_HAVE_HIGHWAY

#include <algorithm>

#include "backends/cpu/pointwise.hpp"

namespace hone::cpu {

namespace {

struct Known {
  const OpDef* op;
  Fn fn;
  int inputs;
};
constexpr Known kKnown[] = {
    {&op::neg, Fn::neg, 1},
    {&op::abs, Fn::abs, 1},
    {&op::exp, Fn::exp, 1},
    {&op::log, Fn::log, 1},
    {&op::sqrt, Fn::sqrt, 1},
    {&op::rsqrt, Fn::rsqrt, 1},
    {&op::reciprocal, Fn::reciprocal, 1},
    {&op::tanh, Fn::tanh, 1},
    {&op::erf, Fn::erf, 1},
    {&op::sign, Fn::sign, 1},
    {&op::floor, Fn::floor, 1},
    {&op::ceil, Fn::ceil, 1},
    {&op::round, Fn::round, 1},
    {&op::logical_not, Fn::logical_not, 1},
    {&op::is_nan, Fn::is_nan, 1},
    {&op::cast, Fn::copy, 1},
    {&op::expand, Fn::copy, 1},
    {&op::relu, Fn::relu, 1},
    {&op::sigmoid, Fn::sigmoid, 1},
    {&op::silu, Fn::silu, 1},
    {&op::gelu, Fn::gelu, 1},
    {&op::hard_sigmoid, Fn::hard_sigmoid, 1},
    {&op::hard_swish, Fn::hard_swish, 1},
    {&op::leaky_relu, Fn::leaky_relu, 1},
    {&op::elu, Fn::elu, 1},
    {&op::softplus, Fn::softplus, 1},
    {&op::clip, Fn::clip, 1},
    {&op::add, Fn::add, 2},
    {&op::sub, Fn::sub, 2},
    {&op::mul, Fn::mul, 2},
    {&op::div, Fn::div, 2},
    {&op::maximum, Fn::maximum, 2},
    {&op::minimum, Fn::minimum, 2},
    {&op::equal, Fn::equal, 2},
    {&op::less, Fn::less, 2},
    {&op::less_equal, Fn::less_equal, 2},
    {&op::greater, Fn::greater, 2},
    {&op::greater_equal, Fn::greater_equal, 2},
    {&op::logical_and, Fn::logical_and, 2},
    {&op::logical_or, Fn::logical_or, 2},
    {&op::logical_xor, Fn::logical_xor, 2},
    {&op::where, Fn::where, 3},
};

const Known* known(const OpDef* op) {
  const auto it = std::find_if(std::begin(kKnown), std::end(kKnown),
                               [&](const Known& k) { return k.op == op; });
  return it == std::end(kKnown) ? nullptr : it;
}

bool float_or_bool(const TensorType& t) { return t.dtype == DType::f32 || t.dtype == DType::bool_; }

}  // namespace

bool pointwise_instruction(const Node& n, Instruction& out) {
  const Known* k = known(n.op);
  if (!k) return false;
  out.fn = k->fn;
  const auto f = [](double v) { return static_cast<float>(v); };
  if (n.op == &op::gelu && n.attrs.as<GeluAttrs>().approximate == GeluForm::tanh)
    out.fn = Fn::gelu_tanh;
  if (n.op == &op::hard_sigmoid) {
    out.p = f(n.attrs.as<AlphaBetaAttrs>().alpha);
    out.q = f(n.attrs.as<AlphaBetaAttrs>().beta);
  }
  if (n.op == &op::leaky_relu || n.op == &op::elu) out.p = f(n.attrs.as<AlphaAttrs>().alpha);
  if (n.op == &op::clip) {
    out.p = f(n.attrs.as<ClipAttrs>().low);
    out.q = f(n.attrs.as<ClipAttrs>().high);
  }
  return true;
}

bool accepts_pointwise(const Graph& g, const Node& n) {
  const Known* k = known(n.op);
  if (!k || n.inputs.size() != static_cast<size_t>(k->inputs)) return false;
  const TensorType& out = g.type(n.outputs[0]);
  if (!float_or_bool(out) || out.numel() == 0) return false;
  for (ValueId v : n.inputs) {
    if (v == kNone || !float_or_bool(g.type(v))) return false;
    const auto shape = broadcast(g.type(v).shape, out.shape);
    if (!shape.ok() || *shape != out.shape) return false;
  }
  // A copy to bool would keep numbers that are neither 0 nor 1.
  return n.op != &op::cast || out.dtype == DType::f32;
}

// ---- lowering

namespace {

// Leading axes of one up to `rank`.
TensorType extended(TensorType t, int rank) {
  while (t.shape.rank() < rank) t.shape.insert(0, 1);
  return t;
}

// Whether the step is to work on channels-last images: where an operand is there in no other order.
bool on_images(const Region& r, const Group& group, const TensorType& out) {
  if (out.shape.rank() < 3) return false;
  for (NodeId id : group.nodes)
    for (ValueId v : r.graph().node(id).inputs)
      if (r.only_image(v) && r.graph().type(v).shape == out.shape) return true;
  return false;
}

// A step's expression under construction, and which register holds which value.
class ExpressionWriter {
 public:
  ExpressionWriter(Region& r, const TensorType& out, bool images, Step& step)
      : r_(r), out_(out), images_(images), step_(step) {}

  void add(std::span<const NodeId> nodes) {
    const Graph& g = r_.graph();
    std::vector<bool> made(g.values.size(), false);
    for (NodeId id : nodes) made[static_cast<size_t>(g.node(id).outputs[0])] = true;
    for (NodeId id : nodes)
      for (ValueId v : g.node(id).inputs)
        if (!made[static_cast<size_t>(v)]) read(v);
    for (NodeId id : nodes) {
      Instruction i;
      pointwise_instruction(g.node(id), i);
      add(g.node(id), i);
    }
  }

  void read(ValueId v) {
    if (find(v) != registers_.end()) return;
    const TensorType& type = r_.graph().type(v);
    if (const Deferred* d = r_.deferred(v); d && images_ && deferred_ < kMostDeferred) {
      ++deferred_;
      const Deferred how = *d;
      registers_.emplace_back(v, read_deferred(how));
      return;
    }
    PointwiseOperand o{type.dtype, type.shape};
    BufferId buffer = kNone;
    if (images_ && type.numel() > 1) {
      const TensorType own = extended(type, out_.shape.rank());
      o.shape = channels_last_shape(own.shape);
      buffer = r_.image(v, own, step_.node);
    } else {
      buffer = r_.plain(v, step_.node);
    }
    registers_.emplace_back(v, operand(std::move(o), buffer));
  }

  int read_deferred(const Deferred& d) {
    read(d.x);
    const Shape& shape = out_.shape;
    const auto vector = [&](BufferId b) {
      Shape by_channel;
      while (by_channel.rank() + 1 < shape.rank()) by_channel.insert(0, 1);
      by_channel.insert(by_channel.rank(), shape[1]);
      return operand({DType::f32, by_channel}, b);
    };
    int at = find(d.x)->second;
    const auto apply = [&](Fn fn, BufferId b, BufferId c) {
      Instruction i;
      i.fn = fn;
      const int in[] = {at, vector(b), vector(c)};
      at = e_.add(i, in);
    };
    apply(Fn::center, d.whole, d.rest);
    apply(Fn::mul_add, d.factor, d.bias);
    return at;
  }

  const Expression& expression() const { return e_; }

 private:
  static constexpr int kMostDeferred = 6;  // each takes four operands and two instructions more
  using Registers = std::vector<std::pair<ValueId, int>>;

  void add(const Node& n, const Instruction& i) {
    std::vector<int> in;
    for (ValueId v : n.inputs) in.push_back(find(v)->second);
    registers_.emplace_back(n.outputs[0], e_.add(i, in));
  }

  Registers::const_iterator find(ValueId v) const {
    return std::find_if(registers_.begin(), registers_.end(),
                        [&](const auto& p) { return p.first == v; });
  }
  int operand(PointwiseOperand o, BufferId buffer) {
    step_.reads.push_back(buffer);
    return e_.add_operand(std::move(o));
  }

  Region& r_;
  const TensorType out_;
  bool images_;
  Step& step_;
  Expression e_;
  Registers registers_;
  int deferred_ = 0;
};

Step step_for(NodeId node) {
  Step s;
  s.node = node;
  s.kind = "vector.pointwise";
  return s;
}

void finish(Region& r, Step step, const Expression& e, ValueId result, bool images, size_t work) {
  const TensorType& type = r.graph().type(result);
  const PointwiseOperand to{type.dtype, images ? channels_last_shape(type.shape) : type.shape};
  Evaluator evaluator = e.evaluator(to.shape);
  step.writes = {images ? r.result_image(result) : r.result_plain(result)};
  step.scratch_bytes =
      evaluator.scratch_floats() * static_cast<int64_t>(sizeof(float)) * r.to().threads();
  step.kernel = pointwise_kernel(std::move(evaluator), to.dtype);
  step.may_share = e.may_share(to, step.reads);
  step.flops = static_cast<double>(type.numel()) * static_cast<double>(work);
  r.to().add(std::move(step));
}

}  // namespace

Status lower_pointwise(Region& r, const Group& group) {
  const ValueId result = r.graph().node(group.last()).outputs[0];
  const TensorType& type = r.graph().type(result);
  const bool images = on_images(r, group, type);
  Step step = step_for(group.last());
  ExpressionWriter w(r, type, images, step);
  w.add(group.nodes);
  finish(r, std::move(step), w.expression(), result, images, group.nodes.size());
  return {};
}

void write_image(Region& r, ValueId v, const Deferred& how) {
  Step step = step_for(how.node);
  ExpressionWriter w(r, r.graph().type(v), true, step);
  w.read_deferred(how);
  finish(r, std::move(step), w.expression(), v, true, 4);
}

Expression image_expression(Region& r, std::span<const NodeId> nodes, Step& step) {
  const TensorType& type = r.graph().type(r.graph().node(nodes.back()).outputs[0]);
  ExpressionWriter w(r, type, true, step);
  w.add(nodes);
  return w.expression();
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_HIGHWAY
