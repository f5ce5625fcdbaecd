// SPDX-License-Identifier: Apache-2.0
// SessionOptions::deterministic: the same bits for any number of threads.
#include "hone/session.hpp"
#include "tests/nn/memory_models.hpp"

namespace hone::test {

TEST_CASE("training in deterministic mode gives the same bits for any number of threads") {
  for (const auto& make : {convolutions, attention, recurrent}) {
    const Subject s = make();
    CAPTURE(s.name);
    TrainerOptions o = options(0);
    o.session.deterministic = true;
    o.session.threads = 1;
    Trainer alone = must(Trainer::create(s.model, o));
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(must(alone.step(s.batch)).loss);
    for (const int threads : {2, 3, 5, 11}) {
      CAPTURE(threads);
      o.session.threads = threads;
      Trainer t = must(Trainer::create(s.model, o));
      for (const double loss : losses) CHECK_EQ(must(t.step(s.batch)).loss, loss);
      check_same_states(alone, t);
      CHECK_EQ(must(t.evaluate(s.batch)), must(alone.evaluate(s.batch)));
    }
  }
}

}  // namespace hone::test
