// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what they keep, whom they fit, and that nothing leaves half of one.
#include "hone/checkpoint.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <limits>

#include "core/base/platform.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

namespace {

// All states of the sample model, with new weights, and what an optimizer adds.
Checkpoint sample_checkpoint(int64_t step) {
  const uint64_t seed = static_cast<uint64_t>(step);
  Checkpoint c;
  c.tensors = {{"w", StateRole::parameter, random_tensor({DType::f32, {4, 3}}, seed)},
               {"bias", StateRole::parameter, random_tensor({DType::f32, {3}}, seed + 1)},
               {"seen", StateRole::buffer, tensor_of<int64_t>({}, {static_cast<double>(step)})},
               {"w.velocity", StateRole::optimizer, random_tensor({DType::f32, {4, 3}}, seed + 2)},
               {"rng", StateRole::rng, tensor_of<int64_t>({2}, {7, static_cast<double>(step)})}};
  c.step = step;
  c.loader = {3, 128, std::numeric_limits<uint64_t>::max()};
  c.loss_scale = 65536;
  c.base_hash = "abc";
  c.metadata = {{"git_commit", "0123"}};
  return c;
}

}  // namespace

TEST_CASE("a checkpoint comes back with every bit and counter") {
  const TempDir dir;
  const Checkpoint c = sample_checkpoint(41);
  REQUIRE_OK(save_checkpoint(c, dir.file("c")));
  const Checkpoint back = must(load_checkpoint(dir.file("c")));
  REQUIRE_EQ(back.tensors.size(), c.tensors.size());
  for (size_t i = 0; i < c.tensors.size(); ++i) {
    CHECK_EQ(back.tensors[i].name, c.tensors[i].name);
    CHECK(back.tensors[i].role == c.tensors[i].role);
    CHECK(same_bits(back.tensors[i].data, c.tensors[i].data));
  }
  CHECK_EQ(back.step, 41);
  CHECK_EQ(back.loader.epoch, 3);
  CHECK_EQ(back.loader.index, 128);
  CHECK_EQ(back.loader.seed, std::numeric_limits<uint64_t>::max());
  CHECK_EQ(back.loss_scale, 65536.0);
  CHECK_EQ(back.base_hash, "abc");
  CHECK_EQ(back.metadata, c.metadata);
  CHECK(back.find("rng") != nullptr);
  CHECK(back.find("nobody") == nullptr);
}

TEST_CASE("a checkpoint that is open survives the next one of the same name") {
  const TempDir dir;
  REQUIRE_OK(save_checkpoint(sample_checkpoint(1), dir.file("c")));
  const Checkpoint first = must(load_checkpoint(dir.file("c")));
  REQUIRE_OK(save_checkpoint(sample_checkpoint(2), dir.file("c")));
  CHECK(same_bits(first.tensors[0].data, sample_checkpoint(1).tensors[0].data));
  CHECK_EQ(must(load_checkpoint(dir.file("c"))).step, 2);
}

TEST_CASE("a checkpoint gives a model its parameters and buffers") {
  Model m = sample_model();
  const Checkpoint c = sample_checkpoint(5);
  REQUIRE_OK(apply_checkpoint(m, c));
  CHECK(same_bits(find_state(m, "w")->data, c.find("w")->data));
  CHECK_EQ(find_state(m, "seen")->data.int_at(0), 5);
}

TEST_CASE("a checkpoint of another model is refused with every difference named") {
  Model m = sample_model();
  Checkpoint c = sample_checkpoint(5);
  c.tensors[0].data = random_tensor({DType::f32, {4, 4}}, 1);
  c.tensors[1].name = "offset";
  c.tensors[2].role = StateRole::parameter;
  const Status s = apply_checkpoint(m, c);
  CHECK_ERROR(s, Code::invalid_argument, "'w' is f32[4, 4], in the model f32[4, 3]");
  CHECK_ERROR(s, Code::invalid_argument, "'bias' is missing");
  CHECK_ERROR(s, Code::invalid_argument, "'seen' is a parameter, in the model a buffer");
  CHECK_ERROR(s, Code::invalid_argument, "'offset' is not in the model");
  CHECK(same_bits(find_state(m, "w")->data, find_state(sample_model(), "w")->data));
}

TEST_CASE("a checkpoint that makes no sense is not saved") {
  const TempDir dir;
  const auto save = [&](auto change) {
    Checkpoint c = sample_checkpoint(1);
    change(c);
    return save_checkpoint(c, dir.file("c"));
  };
  CHECK_ERROR(save([](auto& c) { c.tensors[1].name = "w"; }), Code::invalid_argument,
              "the name 'w'");
  CHECK_ERROR(save([](auto& c) { c.tensors[1].name = ""; }), Code::invalid_argument, "no name");
  CHECK_ERROR(save([](auto& c) { c.tensors[1].data = {}; }), Code::invalid_argument, "'bias'");
  CHECK_ERROR(save([](auto& c) { c.step = -1; }), Code::invalid_argument, "step -1");
  CHECK_ERROR(save([](auto& c) { c.loss_scale = 0; }), Code::invalid_argument, "loss scale 0");
}

TEST_CASE("a damaged, shortened or forged checkpoint is refused") {
  const TempDir dir;
  REQUIRE_OK(save_checkpoint(sample_checkpoint(1), dir.file("c")));
  const std::string file = read_text(dir.file("c"));
  // The container is the model's, whose tests try every bit and length: here every thirteenth byte.
  for (size_t i = 0; i < file.size(); i += 13) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    write_text(dir.file("d"), changed);
    CHECK(load_checkpoint(dir.file("d")).status().code() == Code::invalid_model);
    write_text(dir.file("d"), std::string_view(file).substr(0, i));
    CHECK(load_checkpoint(dir.file("d")).status().code() == Code::invalid_model);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
  const auto load = [&](const std::function<void(schema::CheckpointT&)>& change) {
    const Bytes forged =
        forge(Bytes(bytes, bytes + file.size()), [&](auto& f) { change(*f.checkpoint); });
    write_text(dir.file("d"), {reinterpret_cast<const char*>(forged.data()), forged.size()});
    return load_checkpoint(dir.file("d")).status();
  };
  CHECK_OK(load([](auto&) {}));
  CHECK_ERROR(load([](auto& c) { c.tensors[1]->name = "w"; }), Code::invalid_model, "the name 'w'");
  CHECK_ERROR(load([](auto& c) { c.tensors[0]->name = ""; }), Code::invalid_model, "tensor 0");
  CHECK_ERROR(load([](auto& c) { c.tensors[0]->tensor.reset(); }), Code::invalid_model, "missing");
  CHECK_ERROR(load([](auto& c) { c.tensors[0]->tensor->dims = {5}; }), Code::invalid_model, "'w'");
  CHECK_ERROR(load([](auto& c) { c.index = -1; }), Code::invalid_model, "index -1");
  CHECK_ERROR(load([](auto& c) { c.loss_scale = std::numeric_limits<double>::quiet_NaN(); }),
              Code::invalid_model, "loss scale");
}

TEST_CASE("a model is no checkpoint and a checkpoint no model") {
  const TempDir dir;
  REQUIRE_OK(save_model(sample_model(), dir.file("m")));
  REQUIRE_OK(save_checkpoint(sample_checkpoint(1), dir.file("c")));
  CHECK_ERROR(load_checkpoint(dir.file("m")), Code::invalid_model,
              "this is a model, not a checkpoint");
  CHECK_ERROR(load_model(dir.file("c")), Code::invalid_model, "this is a checkpoint, not a model");
}

// The child writes checkpoints of growing step as fast as it can and is killed in the middle, again
// and again. The parent must find a whole checkpoint each time, its tensors of the step it says.
TEST_CASE("a kill at any moment leaves a checkpoint that loads") {
  const TempDir dir;
  REQUIRE_OK(save_checkpoint(sample_checkpoint(1), dir.file("c")));
  // A disk may take microseconds or a tenth of a second to flush: kills are spread over three times
  // what a save takes here, and over more where the machine turns out too busy to finish any.
  const int64_t start_ns = platform::now_ns();
  REQUIRE_OK(save_checkpoint(sample_checkpoint(2), dir.file("c")));
  uint64_t most_us = static_cast<uint64_t>(platform::now_ns() - start_ns) * 3 / 1000 + 1;
  uint64_t random = 12345;
  int64_t last_step = 0;
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int64_t step = last_step + 1;; ++step)
        if (!save_checkpoint(sample_checkpoint(step), dir.file("c")).ok()) _exit(1);
    }
    random = random * 6364136223846793005u + 1442695040888963407u;
    usleep(static_cast<useconds_t>((random >> 33) % most_us));
    kill(child, SIGKILL);
    int exit_status = 0;
    REQUIRE_EQ(waitpid(child, &exit_status, 0), child);
    CHECK(WIFSIGNALED(exit_status));
    const Checkpoint c = must(load_checkpoint(dir.file("c")));
    const Checkpoint expected = sample_checkpoint(c.step);
    CHECK_GE(c.step, last_step);
    for (size_t i = 0; i < expected.tensors.size(); ++i)
      CHECK(same_bits(c.tensors[i].data, expected.tensors[i].data));
    if (c.step == last_step) most_us += most_us / 8;
    last_step = c.step;
  }
  CHECK_GT(last_step, 2);
}

// A limit on file sizes fails as a full disk does: the write that crosses it is cut short, the next
// one refused.
TEST_CASE("a disk that fills up at any byte leaves the old checkpoint and no litter") {
  const TempDir dir;
  REQUIRE_OK(save_checkpoint(sample_checkpoint(1), dir.file("c")));
  const size_t size = read_text(dir.file("c")).size();
  rlimit whole{};
  REQUIRE_EQ(getrlimit(RLIMIT_FSIZE, &whole), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  for (size_t room = 0; room < size; room += 61) {
    const rlimit small{room, whole.rlim_max};
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status s = save_checkpoint(sample_checkpoint(2), dir.file("c"));
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &whole), 0);
    CAPTURE(room);
    CHECK_ERROR(s, Code::io_error, "");
    CHECK_EQ(must(load_checkpoint(dir.file("c"))).step, 1);
    std::filesystem::directory_iterator entries(dir.path());
    CHECK_EQ(std::distance(begin(entries), end(entries)), 1);
  }
  std::signal(SIGXFSZ, old_handler);
  CHECK_OK(save_checkpoint(sample_checkpoint(2), dir.file("c")));
}
