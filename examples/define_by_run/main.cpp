// SPDX-License-Identifier: Apache-2.0
// Define by run: plain C++ builds the computation, each operation runs at once, backward() walks
// what was recorded.
//
// A recurrent network learns to tell whether a sequence of bits has an odd number of ones. Every
// batch has another length: an ordinary loop decides how many steps there are.
#include <cstdio>

#include "hone/nn.hpp"
#include "hone/optim.hpp"

using hone::Tensor;

class Parity : public hone::nn::Module {
 public:
  explicit Parity(hone::Generator& rng) : in_(1, 32, rng), recur_(32, 32, rng), out_(32, 2, rng) {
    add_child("in", in_);
    add_child("recur", recur_);
    add_child("out", out_);
  }

  Tensor operator()(const Tensor& bits) {  // (batch, time) -> (batch, 2)
    Tensor state = Tensor::zeros({bits.size(0), 32});
    for (int64_t t = 0; t < bits.size(1); ++t)
      state = (in_(bits.slice(1, t, t + 1)) + recur_(state)).tanh();
    return out_(state);
  }

 private:
  hone::nn::Linear in_, recur_, out_;
};

int main() {
  hone::Generator rng(7);
  Parity net(rng);
  std::printf("%s\n\n", to_string(net).c_str());
  hone::Optimizer optimizer = hone::optim::adamw(net.parameters(), 3e-3);

  for (int step = 0; step <= 1500; ++step) {
    const int64_t length = 2 + step % 7;
    const Tensor bits = Tensor::randint({64, length}, rng, 0, 2);
    const Tensor labels = bits.sum({1}).mod(Tensor::scalar(2, hone::DType::i64));

    optimizer.zero_grad();
    const Tensor logits = net(bits.to_f32());
    const Tensor loss = hone::loss::cross_entropy(logits, labels);
    hone::Status status = loss.backward();  // also says what went wrong anywhere above
    if (status.ok()) status = hone::clip_grad_norm(net.parameters(), 1.0).status();
    if (status.ok()) status = optimizer.step();
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;

    const double right = logits.argmax(1).eq(labels).to_f32().mean().item<double>();
    if (step % 250 == 0)
      std::printf("step %4d  length %lld  loss %.3f  right %3.0f %%\n", step,
                  static_cast<long long>(length), loss.item<double>(), 100 * right);
  }
  std::printf("\nthe output layer's weights:\n%s\n", to_string(net.parameters()[4]).c_str());
}
