// SPDX-License-Identifier: Apache-2.0
// Rnn, Gru and Lstm against torch: two layers in both directions, weights sin(0.7 i + k) / 2 for
// element i of the k-th parameter, input cos(i) of shape (3, 2, 2). The numbers come from
// torch 2.14 in double precision.
#include "hone/nn/recurrent.hpp"

#include <cmath>

#include "hone/eager.hpp"
#include "tests/support/check.hpp"

namespace hone::nn {
namespace {

Tensor waves(const Shape& shape, double (*f)(double), double step, double shift, double factor) {
  std::vector<double> v;
  for (int64_t i = 0; i < shape.numel(); ++i)
    v.push_back(factor * f(static_cast<double>(i) * step + shift));
  return Tensor::from(v, shape);
}

double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }

void check_near(const Tensor& got, const std::vector<double>& wanted) {
  REQUIRE(got.ok());
  for (size_t i = 0; i < wanted.size(); ++i)
    CHECK(std::fabs(got.data().at(static_cast<int64_t>(i)) - wanted[i]) < 1e-12);
}

// Output, last state, and the gradients of the sum of the output's squares.
struct Wanted {
  std::vector<double> y, h, gx, gw, gb;
};

template <class Layer>
void check_against_torch(const Wanted& wanted) {
  Generator rng(1);
  Layer layer(2, 2, rng, {.layers = 2, .bidirectional = true});
  layer.to(DType::f64);
  double k = 0;
  for (NamedMember& m : layer.named_parameters()) {
    m.tensor.set_data(waves(m.tensor.shape(), sine, 0.7, k, 0.5).data());
    k += 1;
  }
  Tensor x = waves({3, 2, 2}, cosine, 1, 0, 1);
  x.requires_grad_();
  const RecurrentOutput out = layer(x);
  check_near(out.output, wanted.y);
  check_near(out.h, wanted.h);
  REQUIRE_OK((out.output * out.output).sum().backward());
  check_near(x.grad(), wanted.gx);
  for (const NamedMember& m : layer.named_parameters()) {
    if (m.name == "weight_hh_l0") check_near(m.tensor.grad(), wanted.gw);
    if (m.name == "bias_hh_l0") check_near(m.tensor.grad(), wanted.gb);
  }
}

TEST_CASE("an Rnn computes what torch's does") {
  check_against_torch<Rnn>(
      {{-0.41581920704872244, -0.8436697716071269, 0.8447049430937437, 0.8387389477920071,
        -0.8031756467905771, -0.6104310457759549, 0.9592686766614014, 0.44834444791663675},
       {0.5081853235062286, -0.23488353921506006, 0.7895978625724382, -0.2706279520720906},
       {-0.05791632124863892, -0.03774926854553655, 0.08119456480038947, 0.14444714979804757},
       {0.16773660795913573, 0.06290847123283899, 0.3712221556941532, 0.17297287879741582},
       {0.5341810934201972, 0.7735566917208894}});
}

TEST_CASE("a Gru computes what torch's does") {
  check_against_torch<Gru>(
      {{0.1728671052882568, 0.2259912262681825, -0.4517651811309674, -0.6746657655949284,
        0.09814624439478661, 0.23091094344434776, -0.3997654764671957, -0.7179515959946372},
       {-0.5016403779981539, -0.46605284115574863, -0.4457313545152454, -0.29013689619820504},
       {-0.037993850271645056, -0.042010263290918094, 0.03631984257215654, 0.03684147963408484},
       {-0.004090941237503513, -0.0003308986931137421, -0.0042536813564859, -0.0021969032589732158},
       {0.007876238222442494, 0.008181816697330334, 0.00866488497895323, -0.0869638472944716,
        -0.051801345753188704, -0.24959890445767674}});
}

TEST_CASE("an Lstm computes what torch's does") {
  check_against_torch<Lstm>(
      {{0.09686925832583715, 0.12688266479849877, -0.3048274666895765, -0.3672463509725154,
        0.09305729376476729, 0.12670580703581927, -0.3066624671851204, -0.3640697399488406},
       {-0.262087463877202, -0.22514105107564886, -0.22264496317090982, -0.10851225733299474},
       {0.00012815180872488888, 0.0011780799011929279, 0.0013037879455647676,
        0.0018415257731927601},
       {0.0021398129235606148, 0.0003339806203181548, -0.00013979309440158286,
        0.0001310897099339949},
       {-0.01187847795625225, 0.0006031030125043943, -0.006498070516663937, -0.00017583733194550445,
        0.029296462665409438, -0.003623764604798274, -0.015134139168991574,
        5.575411784094775e-05}});
}

TEST_CASE("a batch-first Lstm with lengths stops each sequence at its end") {
  Generator rng(2);
  Lstm layer(3, 4, rng, {.batch_first = true});
  const Tensor x = Tensor::randn({2, 5, 3}, rng);
  const RecurrentOutput whole = layer(x.slice(0, 0, 1).slice(1, 0, 2));
  const RecurrentOutput cut = layer(x, {}, {}, Tensor::from(std::vector<int64_t>{2, 5}, {2}));
  REQUIRE(cut.output.ok());
  CHECK_EQ(cut.output.shape(), Shape{2, 5, 4});
  CHECK_EQ(cut.c.shape(), Shape{1, 2, 4});
  for (int64_t k = 0; k < 4; ++k) {
    CHECK_EQ(cut.h.data().at(k), whole.h.data().at(k));
    CHECK_EQ(cut.output.data().at(4 * 4 + k), 0);  // the last step of the first sequence
  }
}

TEST_CASE("a wrong width is an error that names the weight") {
  Generator rng(3);
  Gru layer(3, 4, rng);
  const RecurrentOutput out = layer(Tensor::zeros({2, 1, 5}));
  CHECK_FALSE(out.output.ok());
}

}  // namespace
}  // namespace hone::nn
