// SPDX-License-Identifier: Apache-2.0
// Parsing of losses. Grammar:
//   loss := ['-'] term { ('+' | '-') term }      term := factor { '*' factor }     factor := number
//   | call call := name '(' name ',' name { ',' key '=' (name | number) } ')'
// with exactly one call in each term.
#include "hone/loss_text.hpp"

#include <charconv>
#include <cmath>

#include "hone/ops.hpp"

namespace hone {

namespace {

struct Option {
  std::string key, text;
  double number = 0;
  bool is_number = false;
};

struct Term {
  double weight = 1;
  std::string function, output, target;
  std::vector<Option> options;
  std::string text() const { return format("{}({}, {})", function, output, target); }
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Term>> run() {
    std::vector<Term> terms;
    double sign = take('-') ? -1 : 1;
    for (;;) {
      HONE_ASSIGN(Term t, term());
      t.weight *= sign;
      terms.push_back(std::move(t));
      if (take('+'))
        sign = 1;
      else if (take('-'))
        sign = -1;
      else
        break;
    }
    if (at_ != text_.size()) return error("expected '+', '-' or the end");
    return terms;
  }

 private:
  Status error(std::string_view what) const {
    return invalid(
        "loss '{}', character {}: {}{}", text_, at_ + 1, what,
        at_ < text_.size() ? format(", found '{}'", text_.substr(at_, 12)) : ", found the end");
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == ':' || c == '-';
  }
  bool number(double& value) {
    skip();
    const char* const end = text_.data() + text_.size();
    const auto [stop, problem] = std::from_chars(text_.data() + at_, end, value);
    if (problem != std::errc() || !std::isfinite(value)) return false;
    if (stop != end && name_char(*stop)) return false;  // a name that starts with digits
    at_ = static_cast<size_t>(stop - text_.data());
    return true;
  }
  Result<std::string> name(std::string_view what) {
    skip();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const size_t end = text_.find(text_[at_], at_ + 1);
      if (end == std::string_view::npos) return error("a quoted name does not end");
      std::string out(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
      return out;
    }
    size_t end = at_;
    while (end < text_.size() && name_char(text_[end])) ++end;
    if (end == at_) return error(format("expected {}", what));
    std::string out(text_.substr(at_, end - at_));
    at_ = end;
    return out;
  }

  Result<Term> term() {
    Term t;
    bool called = false;
    do {
      double factor = 0;
      if (number(factor)) {
        t.weight *= factor;
        continue;
      }
      if (called) return error("a term has one loss function only");
      HONE_TRY(call(t));
      called = true;
    } while (take('*'));
    if (!called) return error("expected a loss function");
    return t;
  }

  Status call(Term& t) {
    HONE_ASSIGN(t.function, name("a loss function"));
    if (!take('(')) return error(format("expected '(' after '{}'", t.function));
    HONE_ASSIGN(t.output, name("the name of a model output"));
    if (!take(',')) return error("expected ',' and the name of a target");
    HONE_ASSIGN(t.target, name("the name of a target"));
    while (take(',')) {
      Option o;
      HONE_ASSIGN(o.key, name("the name of an option"));
      if (!take('=')) return error(format("expected '=' after option '{}'", o.key));
      o.is_number = number(o.number);
      if (!o.is_number) {
        HONE_ASSIGN(o.text, name("a value"));
      }
      t.options.push_back(std::move(o));
    }
    if (!take(')')) return error("expected ',' or ')'");
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

// The options of one term; what nobody asked for is a mistake.
class Options {
 public:
  explicit Options(const Term& t) : term_(t), used_(t.options.size(), false) {}
  const Option* find(std::string_view key) {
    for (size_t i = 0; i < used_.size(); ++i)
      if (term_.options[i].key == key) {
        used_[i] = true;
        return &term_.options[i];
      }
    return nullptr;
  }
  Result<double> number(std::string_view key, double otherwise) {
    const Option* o = find(key);
    if (!o) return otherwise;
    if (!o->is_number)
      return invalid("loss {}: option {}='{}' must be a number", term_.text(), key, o->text);
    return o->number;
  }
  Result<double> above_zero(std::string_view key, double otherwise) {
    HONE_ASSIGN(const double v, number(key, otherwise));
    if (!(v > 0)) return invalid("loss {}: {} must be above 0, got {}", term_.text(), key, v);
    return v;
  }
  Result<int64_t> integer(std::string_view key, int64_t otherwise) {
    HONE_ASSIGN(const double v, number(key, static_cast<double>(otherwise)));
    if (v != std::floor(v) || std::abs(v) > 1e15)
      return invalid("loss {}: option {}={} must be an integer", term_.text(), key, v);
    return static_cast<int64_t>(v);
  }
  Result<Reduction> reduction() {
    const Option* o = find("reduction");
    if (!o || o->text == "mean") return Reduction::mean;
    if (o->text == "sum") return Reduction::sum;
    return invalid("loss {}: reduction must be mean or sum, got '{}'", term_.text(), o->text);
  }
  Status all_used() const {
    for (size_t i = 0; i < used_.size(); ++i)
      if (!used_[i])
        return invalid("loss {}: there is no option '{}'", term_.text(), term_.options[i].key);
    return {};
  }

 private:
  const Term& term_;
  std::vector<bool> used_;
};

// The axis of `logits` without which its shape is that of `labels`. The first axis is the batch's
// unless there is no other.
Result<int64_t> class_axis(const Term& t, const Shape& logits, const Shape& labels) {
  std::string found;
  int64_t axis = -1;
  int count = 0;
  for (int a = logits.rank() > 1 ? 1 : 0; a < logits.rank(); ++a) {
    Shape rest = logits;
    rest.erase(a);
    if (rest != labels) continue;
    axis = a;
    found += format("{}{}", count ? " or " : "", a);
    ++count;
  }
  if (count == 1) return axis;
  if (count > 1)
    return invalid("loss {}: the class axis could be {}; say which with axis=", t.text(), found);
  if (logits == labels)
    return invalid(
        "loss {}: class indices are expected, but '{}' has the shape {} of the logits, as one-hot "
        "labels have; use "
        "their argmax over the class axis",
        t.text(), t.target, labels);
  return invalid(
      "loss {}: labels of shape {} do not fit logits of shape {}: expected the logits' shape "
      "without the class axis",
      t.text(), labels, logits);
}

Result<Value> cross_entropy(const Term& t, Options& options, Value logits, Value labels,
                            const NamedValues& targets) {
  if (is_float(labels.dtype()) || labels.dtype() == DType::bool_)
    return invalid("loss {}: labels must be class indices (i32 or i64), '{}' is {}", t.text(),
                   t.target, labels.type());
  CrossEntropyAttrs attrs;
  if (options.find("axis")) {
    HONE_ASSIGN(attrs.axis, options.integer("axis", 1));
  } else {
    HONE_ASSIGN(attrs.axis, class_axis(t, logits.shape(), labels.shape()));
  }
  HONE_ASSIGN(attrs.ignore_index, options.integer("ignore_index", -100));
  HONE_ASSIGN(attrs.label_smoothing, options.number("label_smoothing", 0));
  HONE_ASSIGN(attrs.reduction, options.reduction());
  Value weights;
  if (const Option* o = options.find("weight")) {
    HONE_ASSIGN(weights, targets.find(o->text));
    weights = ops::cast(weights, logits.dtype());
  }
  if (labels.dtype() != DType::i32) labels = ops::cast(labels, DType::i64);
  return loss::cross_entropy(logits, labels, attrs, weights);
}

Result<Value> elementwise(const Term& t, Options& options, Value x, Value y) {
  if (x.shape() != y.shape())
    return invalid("loss {}: the output has shape {}, the target {}", t.text(), x.shape(),
                   y.shape());
  y = ops::cast(y, x.dtype());
  HONE_ASSIGN(const Reduction reduction, options.reduction());
  if (t.function == "mse") return loss::mse(x, y, reduction);
  if (t.function == "l1") return loss::l1(x, y, reduction);
  if (t.function == "bce_with_logits") return loss::bce_with_logits(x, y, reduction);
  if (t.function == "smooth_l1") {
    HONE_ASSIGN(const double beta, options.above_zero("beta", 1));
    return loss::smooth_l1(x, y, beta, reduction);
  }
  HONE_ASSIGN(const double delta, options.above_zero("delta", 1));
  return loss::huber(x, y, delta, reduction);
}

Result<Value> apply(const Term& t, const NamedValues& outputs, const NamedValues& targets) {
  auto x = outputs.find(t.output);
  if (!x.ok()) return x.status().with_context(format("loss {}: outputs of the model", t.text()));
  auto y = targets.find(t.target);
  if (!y.ok()) return y.status().with_context(format("loss {}: targets of the batch", t.text()));
  Options options(t);
  HONE_ASSIGN(const Value value, t.function == "cross_entropy"
                                     ? cross_entropy(t, options, *x, *y, targets)
                                     : elementwise(t, options, *x, *y));
  HONE_TRY(options.all_used());
  return t.weight == 1 ? value : value * t.weight;
}

Status check_function(const Term& t) {
  for (std::string_view known :
       {"cross_entropy", "mse", "l1", "smooth_l1", "huber", "bce_with_logits"})
    if (t.function == known) return {};
  return invalid(
      "there is no loss '{}'; there are cross_entropy, mse, l1, smooth_l1, huber, bce_with_logits",
      t.function);
}

}  // namespace

Result<LossFn> parse_loss(std::string_view text) {
  HONE_ASSIGN(std::vector<Term> terms, Parser(text).run());
  for (const Term& t : terms) HONE_TRY(check_function(t));
  return LossFn([terms = std::move(terms)](Builder& b, const NamedValues& outputs,
                                           const NamedValues& targets) -> Result<Value> {
    Value total;
    for (const Term& t : terms) {
      HONE_ASSIGN(const Value value, apply(t, outputs, targets));
      total = total.valid() ? total + value : value;
    }
    if (!b.status().ok()) return b.status();
    return total;
  });
}

Result<LossFn> parse_target_count(std::string_view text) {
  HONE_ASSIGN(std::vector<Term> terms, Parser(text).run());
  for (const Term& t : terms) HONE_TRY(check_function(t));
  return LossFn([t = std::move(terms[0])](Builder&, const NamedValues&,
                                          const NamedValues& targets) -> Result<Value> {
    Options options(t);
    HONE_ASSIGN(const Reduction reduction, options.reduction());
    if (reduction == Reduction::sum)
      return invalid(
          "loss {}: gradients of several batches are averaged, which does not go with "
          "reduction=sum; use the mean",
          t.text());
    HONE_ASSIGN(const Value labels, targets.find(t.target));
    Builder& b = labels.builder();
    if (t.function != "cross_entropy")
      return b.scalar(static_cast<double>(labels.shape().numel()), DType::f32);
    HONE_ASSIGN(const int64_t ignored, options.integer("ignore_index", -100));
    const Value skip =
        b.emit(op::equal, {labels, b.scalar(static_cast<double>(ignored), labels.dtype())});
    Value each = b.scalar(1, DType::f32);
    if (const Option* o = options.find("weight")) {
      HONE_ASSIGN(const Value weights, targets.find(o->text));
      const Value known = b.emit(op::where, {skip, b.scalar(0, labels.dtype()), labels});
      each = ops::cast(ops::gather(weights, known, 0), DType::f32);
    }
    const Value counted = b.emit(op::where, {skip, b.scalar(0, DType::f32), each});
    return ops::sum(counted, {.keepdims = false});
  });
}

Result<std::vector<LossTerm>> loss_terms(std::string_view text) {
  HONE_ASSIGN(const std::vector<Term> terms, Parser(text).run());
  std::vector<LossTerm> out;
  for (const Term& t : terms) {
    HONE_TRY(check_function(t));
    LossTerm term{t.function, t.output, t.target, {}};
    for (const Option& o : t.options)
      if (o.key == "weight" && !o.is_number) term.class_weights = o.text;
    out.push_back(std::move(term));
  }
  return out;
}

}  // namespace hone
