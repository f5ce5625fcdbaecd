// SPDX-License-Identifier: Apache-2.0
// Cross entropy with class weights against PyTorch 2.14 in fp64.
#include "hone/eager.hpp"
#include "hone/functional.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

struct Golden {
  CrossEntropyAttrs attrs;
  std::vector<double> loss, by_logits, by_weights;
};

// torch.nn.functional.cross_entropy(z, y, weight=w, ...) and the gradient of its sum by z. PyTorch
// has no derivative by w: that column is the derivative of the same loss written with log_softmax.
// clang-format off
const Golden kGolden[] = {
    {{.ignore_index = -100, .label_smoothing = 0, .reduction = Reduction::mean},
     {1.890261277},
     {-0.07502988065, 0.01627612122, 0.06787582168, -0.3431907549, 0.007154058972, 0.3269146337, 0.04904967609, 0.150937224, 0.0297501324, 0.09154805407, -0.07879980849, -0.2424852781},
     {-0.1005541951, 0.01230083838, 0.02054033662}},
    {{.ignore_index = 1, .label_smoothing = 0, .reduction = Reduction::mean},
     {1.849258483},
     {-0.1250498011, 0, 0.1131263695, 0, 0.01192343162, 0, 0.08174946015, 0.2515620401, 0.049583554, 0.1525800901, -0.1313330141, -0.4041421302},
     {-0.1539227269, 0, 0.06156909077}},
    {{.ignore_index = -100, .label_smoothing = 0.3, .reduction = Reduction::mean},
     {1.777368895},
     {-0.04379332694, 0.004445057582, 0.05841994144, -0.269581795, -0.01462661449, 0.2651367374, 0.03904967609, 0.140937224, -0.0102498676, 0.05154805407, -0.02879980849, -0.1924852781},
     {-0.0267755365, 0.02722298691, -0.03284656446}},
    {{.ignore_index = 1, .label_smoothing = 0.3, .reduction = Reduction::mean},
     {1.859570255},
     {-0.07298887824, 0, 0.09736656906, 0, -0.02437769082, 0, 0.06508279349, 0.2348953734, -0.01708311267, 0.08591342345, -0.04799968082, -0.3208087968},
     {-0.1787518633, 0.1173571513, -0.1162706968}},
    {{.ignore_index = -100, .label_smoothing = 0, .reduction = Reduction::sum},
     {9.451306387},
     {-0.3751494033, 0.08138060609, 0.3393791084, -1.715953775, 0.03577029486, 1.634573169, 0.2452483805, 0.7546861202, 0.148750662, 0.4577402704, -0.3939990424, -1.212426391},
     {1.387490302, 1.951765469, 3.883224238}},
    {{.ignore_index = 1, .label_smoothing = 0, .reduction = Reduction::sum},
     {5.547775448},
     {-0.3751494033, 0, 0.3393791084, 0, 0.03577029486, 0, 0.2452483805, 0.7546861202, 0.148750662, 0.4577402704, -0.3939990424, -1.212426391},
     {1.387490302, 0, 3.883224238}},
    {{.ignore_index = -100, .label_smoothing = 0.3, .reduction = Reduction::sum},
     {8.886844474},
     {-0.2189666347, 0.02222528791, 0.2920997072, -1.347908975, -0.07313307246, 1.325683687, 0.1952483805, 0.7046861202, -0.05124933801, 0.2577402704, -0.1439990424, -0.9624263905},
     {1.643491212, 1.913483829, 3.390504967}},
    {{.ignore_index = 1, .label_smoothing = 0.3, .reduction = Reduction::sum},
     {5.578710766},
     {-0.2189666347, 0, 0.2920997072, 0, -0.07313307246, 0, 0.1952483805, 0.7046861202, -0.05124933801, 0.2577402704, -0.1439990424, -0.9624263905},
     {1.323314665, 0.352071454, 3.37032842}},
    {{.ignore_index = -100, .label_smoothing = 0, .reduction = Reduction::none},
     {0.693745151, 3.903530939, 0.4732841694, 4.380746128},
     {-0.3751494033, 0.08138060609, 0.3393791084, -1.715953775, 0.03577029486, 1.634573169, 0.2452483805, 0.7546861202, 0.148750662, 0.4577402704, -0.3939990424, -1.212426391},
     {1.387490302, 1.951765469, 3.883224238}},
    {{.ignore_index = 1, .label_smoothing = 0, .reduction = Reduction::none},
     {0.693745151, 0, 0.4732841694, 4.380746128},
     {-0.3751494033, 0, 0.3393791084, 0, 0.03577029486, 0, 0.2452483805, 0.7546861202, 0.148750662, 0.4577402704, -0.3939990424, -1.212426391},
     {1.387490302, 0, 3.883224238}},
    {{.ignore_index = -100, .label_smoothing = 0.3, .reduction = Reduction::none},
     {0.962180469, 3.308133708, 0.8857841694, 3.730746128},
     {-0.2189666347, 0.02222528791, 0.2920997072, -1.347908975, -0.07313307246, 1.325683687, 0.1952483805, 0.7046861202, -0.05124933801, 0.2577402704, -0.1439990424, -0.9624263905},
     {1.643491212, 1.913483829, 3.390504967}},
    {{.ignore_index = 1, .label_smoothing = 0.3, .reduction = Reduction::none},
     {0.962180469, 0, 0.8857841694, 3.730746128},
     {-0.2189666347, 0, 0.2920997072, 0, -0.07313307246, 0, 0.1952483805, 0.7046861202, -0.05124933801, 0.2577402704, -0.1439990424, -0.9624263905},
     {1.323314665, 0.352071454, 3.37032842}},
};
// clang-format on

void check_near(const Tensor& got, const std::vector<double>& want) {
  REQUIRE_OK(got.status());
  const std::vector<double> values = got.to_vector<double>();
  REQUIRE_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    CHECK_EQ(values[i], doctest::Approx(want[i]).epsilon(1e-8));
}

TEST_CASE("weighted cross entropy and its gradients are PyTorch's") {
  for (const Golden& g : kGolden) {
    CAPTURE(to_string(g.attrs.reduction == Reduction::none ? Shape{2, 2} : Shape{}));
    CAPTURE(g.attrs.label_smoothing);
    CAPTURE(g.attrs.ignore_index);
    Tensor z = Tensor::of<double>(
        {0.5, -1.0, 1.5, 0.25, -0.75, 2.0, 0.0, 1.0, -0.5, 0.5, 1.25, -2.0}, {2, 3, 2});
    Tensor w = Tensor::of<double>({0.5, 2.0, 1.25});
    const Tensor y = Tensor::of<int64_t>({0, 1, 2, 2}, {2, 2});
    z.requires_grad_();
    w.requires_grad_();
    const Tensor loss = loss::cross_entropy(z, y, g.attrs, w);
    check_near(loss, g.loss);
    REQUIRE_OK(loss.sum().backward());
    check_near(z.grad(), g.by_logits);
    check_near(w.grad(), g.by_weights);
  }
}

TEST_CASE("weights of ignored labels get no gradient, also when nothing else is there") {
  Tensor z = Tensor::of<float>({1, 2, 3, 4}, {2, 2}), w = Tensor::of<float>({1, 2});
  z.requires_grad_();
  w.requires_grad_();
  const Tensor y = Tensor::of<int64_t>({-100, -100});
  REQUIRE_OK(loss::cross_entropy(z, y, {.label_smoothing = 0.1}, w).backward());
  CHECK_EQ(w.grad().to_vector<float>(), std::vector<float>{0, 0});
  CHECK_EQ(z.grad().to_vector<float>(), std::vector<float>{0, 0, 0, 0});
}

// C25: micro-batch A has 1 token with gradient 1, B has 3 with gradient 3.
TEST_CASE("C25: gradients of several backward() calls add up, weighted by the number of targets") {
  Tensor w = Tensor::zeros({});
  w.requires_grad_();
  const auto token_losses = [&](int64_t tokens, double slope) {
    return w * Tensor::full({tokens}, slope);
  };
  const double tokens = 1 + 3;
  for (const Tensor& losses : {token_losses(1, 1), token_losses(3, 3)})
    REQUIRE_OK((losses.sum() / tokens).backward());
  CHECK_EQ(w.grad().item<double>(), 2.5);
  NoGrad no_grad;
  w -= w.grad();
  CHECK_EQ(w.item<double>(), -2.5);
  w.zero_grad();
  CHECK_FALSE(w.grad().defined());
}

}  // namespace
}  // namespace hone
