// SPDX-License-Identifier: Apache-2.0
// Trees of modules: names, modes, freezing, weights.
#include "hone/nn/module.hpp"

#include "hone/nn/layers.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

class Block : public nn::Module {
 public:
  explicit Block(Generator& rng) : fc(3, 3, rng), norm(3) {
    add_child("fc", fc);
    add_child("norm", norm);
  }
  std::string kind() const override { return "Block"; }
  Tensor operator()(const Tensor& x) {
    NameScope scope = enter();
    return norm(fc(x)).tanh();
  }
  nn::Linear fc;
  nn::BatchNorm norm;
};

class Net : public nn::Module {
 public:
  explicit Net(Generator& rng) : head(3, 2, rng, nn::Bias::no) {
    scale = Tensor::ones({1});
    add_parameter("scale", scale);
    blocks.add(rng);
    blocks.add(rng);
    add_child("blocks", blocks);
    add_child("head", head);
  }
  Tensor operator()(const Tensor& x) { return head(blocks[1](blocks[0](x * scale))); }
  Tensor scale;
  nn::ModuleList<Block> blocks;
  nn::Linear head;
};

std::vector<std::string> names(const std::vector<nn::NamedMember>& members) {
  std::vector<std::string> out;
  for (const auto& m : members) out.push_back(m.name);
  return out;
}

TEST_CASE("parameters and buffers are named by their path") {
  Generator rng(1);
  const Net net(rng);
  CHECK_EQ(names(net.named_parameters()),
           std::vector<std::string>{"scale", "blocks.0.fc.weight", "blocks.0.fc.bias",
                                    "blocks.0.norm.weight", "blocks.0.norm.bias",
                                    "blocks.1.fc.weight", "blocks.1.fc.bias",
                                    "blocks.1.norm.weight", "blocks.1.norm.bias", "head.weight"});
  CHECK_EQ(names(net.named_buffers()).size(), 6u);
  CHECK_EQ(names(net.named_buffers())[0], "blocks.0.norm.running_mean");
  CHECK_EQ(net.parameter_count(), 1 + 2 * (9 + 3 + 3 + 3) + 6);
}

TEST_CASE("operations carry the path of the module that ran them") {
  Generator rng(1);
  Net net(rng);
  std::vector<std::string> scopes;
  Observer watch([&](const OpEvent& e) {
    if (scopes.empty() || scopes.back() != e.name) scopes.emplace_back(e.name);
  });
  (void)net(Tensor::ones({2, 3}));
  CHECK_EQ(scopes[0], "");
  CHECK_EQ(scopes[1], "0.fc");
  CHECK_EQ(scopes.back(), "head");
}

TEST_CASE("the same seed gives the same module") {
  Generator a(5), b(5), c(6);
  const Net x(a), y(b), z(c);
  CHECK(test::same_bits(x.head.weight.data(), y.head.weight.data()));
  CHECK_FALSE(test::same_bits(x.head.weight.data(), z.head.weight.data()).close);
}

TEST_CASE("freezing by pattern leaves the others trainable") {
  Generator rng(1);
  Net net(rng);
  CHECK_EQ(net.freeze("blocks.0.*,scale"), 5);
  CHECK_EQ(net.freeze("nothing.*"), 0);
  CHECK_FALSE(net.scale.requires_grad());
  CHECK(net.blocks[1].fc.weight.requires_grad());
  CHECK_OK(net(Tensor::ones({2, 3})).sum().backward());
  CHECK_FALSE(net.blocks[0].fc.weight.grad().defined());
  CHECK(net.blocks[1].fc.weight.grad().defined());
  CHECK_EQ(net.unfreeze("*.fc.weight"), 2);
  CHECK(net.blocks[0].fc.weight.requires_grad());
  net.zero_grad();
  CHECK_FALSE(net.blocks[1].fc.weight.grad().defined());
}

TEST_CASE("modes and functions reach every module") {
  Generator rng(1);
  Net net(rng);
  net.eval();
  int visited = 0;
  std::string paths;
  net.apply([&](nn::Module& m, const std::string& path) {
    CHECK_FALSE(m.is_training());
    paths += path + ";";
    ++visited;
  });
  CHECK_EQ(paths,
           ";blocks;blocks.0;blocks.0.fc;blocks.0.norm;blocks.1;blocks.1.fc;blocks.1.norm;head;");
  net.train();
  CHECK(net.blocks[0].norm.is_training());
}

TEST_CASE("a state dict restores a module and does not change with it") {
  Generator rng(1), other(2);
  Net net(rng), copy(other);
  const std::vector<NamedTensor> state = net.state_dict();
  {
    NoGrad no_grad;
    net.head.weight.add_(1);
  }
  REQUIRE_OK(copy.load_state_dict(state));
  CHECK_FALSE(test::same_bits(copy.head.weight.data(), net.head.weight.data()).close);
  REQUIRE_OK(net.load_state_dict(state));
  CHECK(test::same_bits(copy.head.weight.data(), net.head.weight.data()));
  const Tensor x = Tensor::ones({2, 3});
  net.eval();
  copy.eval();
  CHECK(test::same_bits(copy(x).data(), net(x).data()));
}

TEST_CASE("everything wrong with a state dict is one error, and nothing changes") {
  Generator rng(1);
  nn::Linear fc(3, 2, rng);
  const TensorData before = fc.weight.data();
  const NamedTensor state[] = {{"weight", test::tensor_of<float>({2}, {1, 2})},
                               {"extra", test::tensor_of<float>({1}, {1})}};
  CHECK_ERROR(fc.load_state_dict(state), Code::invalid_argument,
              "load_state_dict: missing: 'bias'; unexpected: 'extra'; of another type: 'weight' is "
              "f32[2, 3], got f32[2]");
  CHECK(test::same_bits(fc.weight.data(), before));
  const NamedTensor part[] = {{"bias", test::tensor_of<double>({2}, {1, 2})},
                              {"extra", test::tensor_of<float>({1}, {1})}};
  CHECK_ERROR(fc.load_state_dict(part), Code::invalid_argument,
              "missing: 'weight'; unexpected: 'extra'");
  REQUIRE_OK(fc.load_state_dict(part, nn::Match::partial));
  CHECK_EQ(fc.bias.type(), TensorType{DType::f32, {2}});
  CHECK_EQ(fc.bias.at({1}), 2);
}

TEST_CASE("a module converts to another dtype and handles follow") {
  Generator rng(1);
  Net net(rng);
  const Tensor weight = net.head.weight;
  net.to(DType::f64);
  CHECK_EQ(weight.dtype(), DType::f64);
  CHECK(weight.requires_grad());
  CHECK_EQ(net.blocks[0].norm.running_var.dtype(), DType::f64);
  CHECK_EQ(net.blocks[0].norm.num_batches_tracked.dtype(), DType::i64);
  CHECK_EQ(net(Tensor::ones({2, 3}, DType::f64)).dtype(), DType::f64);
}

TEST_CASE("a module prints as a table") {
  Generator rng(1);
  nn::Sequential net;
  net.add<nn::Linear>(3, 4, rng);
  net.add<nn::Tanh>();
  net.add_named<nn::Linear>("head", 4, 2, rng, nn::Bias::no);
  net.freeze("0.bias");
  CHECK_EQ(to_string(net),
           "module  kind        count  parameters\n"
           "(root)  Sequential     24\n"
           "0       Linear         16  weight [4, 3], bias [4] frozen\n"
           "1       Tanh            0\n"
           "head    Linear          8  weight [2, 4]\n"
           "24 parameters, 20 trainable");
}

}  // namespace
}  // namespace hone
