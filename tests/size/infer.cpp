// SPDX-License-Identifier: Apache-2.0
// usage: hone_size_infer MODEL.hone   The smallest app that infers: opens one model and runs it,
// named dimensions being 1.
#include <cmath>
#include <cstdio>

#include "hone/session.hpp"

namespace {

hone::Status infer(const char* path) {
  HONE_ASSIGN(const hone::Model model, hone::load_model(path));
  HONE_ASSIGN(hone::Session session, hone::Session::create(model));
  std::vector<hone::TensorData> inputs;
  for (const hone::ValueId v : model.graph.inputs) {
    hone::TensorType type = model.graph.type(v);
    for (int i = 0; i < type.shape.rank(); ++i)
      if (type.shape[i] < 0) type.shape[i] = 1;
    HONE_ASSIGN(hone::TensorData input, hone::TensorData::zeros(type));
    inputs.push_back(std::move(input));
  }
  HONE_ASSIGN(const std::vector<hone::TensorData> outputs, session.run(inputs));
  if (outputs[0].type().dtype != hone::DType::f32) return hone::invalid("the output is not f32");
  const float* const first = static_cast<const float*>(outputs[0].data());
  double sum = 0;
  for (int64_t i = 0; i < outputs[0].type().numel(); ++i) sum += std::fabs(double{first[i]});
  std::printf("mean of the output's magnitude: %.6f\n",
              sum / static_cast<double>(outputs[0].type().numel()));
  return std::isfinite(sum) ? hone::Status() : hone::invalid("the output is not finite");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const hone::Status s = infer(argv[1]);
  if (!s.ok()) std::fprintf(stderr, "hone_size_infer: %s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
