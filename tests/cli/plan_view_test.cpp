// SPDX-License-Identifier: Apache-2.0
// Pictures of plans: well-formed, true to the plan, and safe whatever names a model has.
#include "core/cli/plan_view.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/cli/markup.hpp"
#include "hone/onnx.hpp"
#include "tests/cli/xml.hpp"
#include "tests/runtime/models.hpp"
#include "tests/support/source_path.hpp"

namespace hone::test {

namespace {

using cli::PlanView;

Result<Value> squares(Builder&, const NamedValues& outputs, const NamedValues&) {
  return ops::mean(ops::square(outputs.items()[0].second), {.keepdims = false});
}

Trainer trainer(const Model& m, int64_t limit = 0) {
  TrainerOptions o;
  o.loss = squares;
  o.session.memory_limit = limit;
  return must(Trainer::create(m, o));
}

PlanView view_of(Trainer t, const TensorData& x, std::string_view input) {
  const std::vector<NamedTensor> batch = {{std::string(input), x}};
  return {"a title", must(t.plan(batch)), must(t.plan_detail(batch))};
}

Model segment() { return must(open_model(source_path("tests/golden/train_segment/model.onnx"))); }
TensorData images() { return random_tensor({DType::f32, {16, 1, 8, 8}}, 1); }

// With a limit between what it takes and the least.
PlanView limited_segment() {
  const std::vector<NamedTensor> batch = {{"input", images()}};
  Trainer free = trainer(segment());
  const int64_t least = must(free.smallest_memory_limit(batch));
  return view_of(trainer(segment(), (least + must(free.plan(batch)).peak_bytes) / 2), images(),
                 "input");
}

// x -> tanh(x * w), again and again.
PlanView long_chain(int times) {
  Model m;
  Builder b(m.graph, Composites::keep);
  Value v = b.input({DType::f32, {256}}, "x");
  const Value w = b.state(StateRole::parameter, random_tensor({DType::f32, {256}}, 1), "w");
  for (int i = 0; i < times; ++i) {
    b.set_scope(format("layer{}", i));
    v = ops::tanh(v * w);
  }
  b.output(v, "y");
  return view_of(trainer(m), random_tensor({DType::f32, {256}}, 2), "x");
}

struct Box {
  double x, y, w, h;
  std::string use, title;
};

double number(const XmlElement& e, const char* key) {
  const auto it = e.attributes.find(key);
  return it == e.attributes.end() ? 0 : std::strtod(it->second.c_str(), nullptr);
}

// The rectangles that stand for buffers.
std::vector<Box> lives(const Xml& xml) {
  std::vector<Box> out;
  std::vector<int> index(xml.elements.size(), -1);
  for (size_t i = 0; i < xml.elements.size(); ++i) {
    const XmlElement& e = xml.elements[i];
    const auto classes = e.attributes.find("class");
    if (e.name == "rect" && classes != e.attributes.end() && classes->second.starts_with("life ")) {
      index[i] = static_cast<int>(out.size());
      out.push_back({number(e, "x"), number(e, "y"), number(e, "width"), number(e, "height"),
                     classes->second.substr(5), ""});
    }
    if (e.name == "title" && e.parent >= 0 && index[static_cast<size_t>(e.parent)] >= 0)
      out[static_cast<size_t>(index[static_cast<size_t>(e.parent)])].title = e.text;
  }
  return out;
}

const XmlElement* of_class(const Xml& xml, std::string_view name, std::string_view wanted) {
  for (const XmlElement& e : xml.elements) {
    const auto it = e.attributes.find("class");
    if (e.name == name && it != e.attributes.end() && it->second == wanted) return &e;
  }
  return nullptr;
}

// Rectangles that overlap by more than the rounding of coordinates, or leave the chart's frame.
std::string clashes(const Xml& xml) {
  constexpr double kRounding = 0.021;  // two coordinates, each to a hundredth
  const XmlElement* frame = of_class(xml, "rect", "frame");
  for (const XmlElement& e : xml.elements) {  // the largest of the frames is the arena's
    const auto it = e.attributes.find("class");
    if (e.name == "rect" && it != e.attributes.end() && it->second == "frame" &&
        number(e, "height") > number(*frame, "height"))
      frame = &e;
  }
  const std::vector<Box> all = lives(xml);
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    const Box& a = all[i];
    if (a.x < number(*frame, "x") - kRounding || a.y < number(*frame, "y") - kRounding ||
        a.x + a.w > number(*frame, "x") + number(*frame, "width") + kRounding ||
        a.y + a.h > number(*frame, "y") + number(*frame, "height") + kRounding)
      out += "outside: " + a.title + "\n";
    for (size_t k = 0; k < i; ++k) {
      const Box& b = all[k];
      if (a.x + kRounding < b.x + b.w && b.x + kRounding < a.x + a.w &&
          a.y + kRounding < b.y + b.h && b.y + kRounding < a.y + a.h)
        out += "overlap: " + a.title + " / " + b.title + "\n";
    }
  }
  return out;
}

// The page's elements without a closing tag are not XML: only what must hold is asked here.
void check_page(const PlanView& view) {
  const std::string page = cli::plan_html(view);
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.find(cli::plan_svg(view)) != std::string::npos);
  CHECK(page.find("<h2>What makes the peak</h2>") != std::string::npos);
}

}  // namespace

TEST_CASE("pictures are well-formed and show every buffer where the plan has it") {
  const PlanView views[] = {view_of(trainer(small_mlp()), two_clouds(64, 1)[0].data, "x"),
                            view_of(trainer(segment()), images(), "input"), limited_segment()};
  for (const PlanView& view : views) {
    const Xml xml = read_xml(cli::plan_svg(view));
    CHECK_EQ(xml.wrong, "");
    CHECK_EQ(clashes(xml), "");
    CHECK_GT(lives(xml).size(), view.detail.buffers.size() / 2);
    CHECK(of_class(xml, "line", "peak") != nullptr);
    check_page(view);
  }
}

TEST_CASE("a picture marks what is computed again, and the limit") {
  const PlanView bound = limited_segment();
  REQUIRE_GT(bound.info.repeated_steps, 0);
  const Xml xml = read_xml(cli::plan_svg(bound));
  const std::vector<Box> all = lives(xml);
  const auto again = std::find_if(all.begin(), all.end(), [](const Box& b) {
    return b.use == "again" && b.title.find("computed again") != std::string::npos;
  });
  CHECK(again != all.end());
  CHECK(of_class(xml, "line", "limit") != nullptr);
  CHECK(cli::plan_text(bound).find("steps are second runs") != std::string::npos);

  const PlanView free = view_of(trainer(segment()), images(), "input");
  const Xml without = read_xml(cli::plan_svg(free));
  for (const Box& b : lives(without)) CHECK_NE(b.use, "again");
  CHECK(of_class(without, "line", "limit") == nullptr);
}

TEST_CASE("the place of a rectangle is its buffer's life and address") {
  PlanView view;
  view.detail.steps.resize(4);
  view.detail.buffers = {{"low", "f32[8]", PlanUse::passing, 64, 0, 0, 1, false},
                         {"high", "f32[24]", PlanUse::work, 192, 64, 1, 3, false}};
  view.detail.live_bytes = {64, 256, 192, 192};
  view.detail.arena_bytes = 256;
  view.detail.peak_step = 1;
  view.info.arena_bytes = view.info.peak_bytes = 256;
  const Xml xml = read_xml(cli::plan_svg(view));
  const std::vector<Box> all = lives(xml);
  REQUIRE_EQ(all.size(), 2);
  const Box &low = all[0], &high = all[1];
  CHECK_EQ(low.title,
           "low&#10;f32[8]&#10;64 B at address 0&#10;held from step 0 to 1&#10;made by: "
           "&#10;forward only");
  CHECK_EQ(high.h, doctest::Approx(3 * low.h).epsilon(1e-3));
  CHECK_EQ(high.w, doctest::Approx(1.5 * low.w).epsilon(1e-3));
  CHECK_EQ(high.x, doctest::Approx(low.x + low.w / 2).epsilon(1e-3));
  CHECK_EQ(high.y + high.h, doctest::Approx(low.y).epsilon(1e-3));
  // The peak's line stands in the middle of step 1.
  const XmlElement* peak = of_class(xml, "line", "peak");
  REQUIRE(peak != nullptr);
  CHECK_EQ(number(*peak, "x1"), doctest::Approx(low.x + 0.75 * low.w).epsilon(1e-3));
}

TEST_CASE("a plan of thousands of steps makes a picture of bounded size") {
  const PlanView view = long_chain(1200);
  REQUIRE_GT(view.detail.steps.size(), 3000);
  const std::string svg = cli::plan_svg(view);
  CHECK_LT(svg.size(), 3u << 20);
  const Xml xml = read_xml(svg);
  CHECK_EQ(xml.wrong, "");
  CHECK_EQ(clashes(xml), "");
}

TEST_CASE("a plan without steps or memory still makes a picture, a page and tables") {
  const PlanView nothing;
  const Xml xml = read_xml(cli::plan_svg(nothing));
  CHECK_EQ(xml.wrong, "");
  CHECK(lives(xml).empty());
  CHECK(of_class(xml, "line", "peak") == nullptr);
  CHECK(cli::plan_svg(nothing).find("nan") == std::string::npos);
  CHECK(cli::plan_text(nothing).find("There are no steps") != std::string::npos);
  check_page(nothing);
}

TEST_CASE("names from a model file cannot break out of a picture, a page or a terminal") {
  const std::string hostile =
      "</title><script>alert(1)</script>&\"'\x1b[2J\x01\xff\xc0\xaf\xed\xa0\x80\xc2\x9b\n]]>";
  PlanView view;
  view.title = hostile;
  view.detail.steps = {{hostile, hostile, PlanPhase::forward, false}};
  view.detail.buffers = {{hostile, hostile, PlanUse::passing, 64, 0, 0, 0, false}};
  view.detail.live_bytes = {64};
  view.detail.arena_bytes = view.info.arena_bytes = view.info.peak_bytes = 64;
  view.detail.peak_step = 0;
  const std::string svg = cli::plan_svg(view), page = cli::plan_html(view);
  CHECK_EQ(read_xml(svg).wrong, "");
  for (const std::string& text : {svg, page}) {
    CHECK(text.find("<script") == std::string::npos);
    CHECK(text.find("&lt;script") != std::string::npos);
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find('\xff') == std::string::npos);
  }
  const std::string shown = cli::plan_text(view);
  CHECK(shown.find("<script>") != std::string::npos);  // harmless there
  CHECK(shown.find('\x1b') == std::string::npos);
  CHECK(shown.find("\xc2\x9b") == std::string::npos);  // the one-character form of ESC [
}

TEST_CASE("text that may be shown stays, the rest is replaced byte by byte") {
  CHECK_EQ(cli::printable("conv/Größe 名 \xF0\x9F\x98\x80"), "conv/Größe 名 \xF0\x9F\x98\x80");
  CHECK_EQ(cli::printable("a\x01\x7f"
                          "b"),
           "a\uFFFD\uFFFDb");
  CHECK_EQ(cli::printable("\xc3"), "\uFFFD");                      // cut short
  CHECK_EQ(cli::printable("\xc0\xaf"), "\uFFFD\uFFFD");            // '/' in two bytes
  CHECK_EQ(cli::printable("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // half a surrogate pair
  CHECK_EQ(cli::printable("\xef\xbf\xbf"), "\uFFFD\uFFFD\uFFFD");  // U+FFFF
  CHECK_EQ(cli::printable("\xe2\x80\xae"), "\uFFFD\uFFFD\uFFFD");  // turns the line around
  CHECK_EQ(cli::printable("\xf5\x80\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK_EQ(cli::xml_text("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  CHECK_EQ(cli::shortened("abcdefghij", 10), "abcdefghij");
  CHECK_EQ(cli::shortened("abcdefghijk", 9), "abc...ijk");
  CHECK_EQ(cli::shortened("ääääääääää", 7), "ää...ää");
  CHECK_EQ(cli::shortened("abcdef", 2), "ab");
}

TEST_CASE("the tables tell what makes the peak, largest first") {
  const PlanView view = view_of(trainer(segment()), images(), "input");
  const cli::Rows rows = cli::largest_at_peak(view.detail, 3, 40);
  REQUIRE_EQ(rows.size(), 4);  // a header and three
  int64_t largest = 0, live = 0;
  for (const PlanBuffer& b : view.detail.buffers)
    if (b.first <= view.detail.peak_step && view.detail.peak_step <= b.last) {
      largest = std::max(largest, b.bytes);
      live += b.bytes;
    }
  CHECK_EQ(rows[1][0], bytes_text(largest));
  CHECK_EQ(live, view.info.lower_bound_bytes);
  const std::string text = cli::plan_text(view);
  for (const char* part : {"optimizer state", "parameters and buffers", "live at once",
                           "kept for the backward pass", "The largest buffers of all steps"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find(bytes_text(view.info.peak_bytes)) != std::string::npos);
}

}  // namespace hone::test
