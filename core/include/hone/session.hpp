// SPDX-License-Identifier: Apache-2.0
// Running a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hone/model.hpp"
#include "hone/named_tensor.hpp"
#include "hone/profile.hpp"

namespace hone {

class Backend;
class ThreadPool;
class Engine;
struct Compiled;

enum class Kernels : uint8_t {
  best,       ///< The CPU backend's fastest implementations.
  reference,  ///< The plain reference kernels only.
};

/// The largest extent that a named dimension of the inputs may have.
struct DimLimit {
  std::string name;  ///< As the model has it: "N" for an input of shape [N, 3].
  int64_t max = 0;
};

/// "N=16,T=512" as limits. Errors: invalid_argument.
Result<std::vector<DimLimit>> parse_dim_limits(std::string_view text);

struct SessionOptions {
  int threads =
      1;  ///< Threads that kernels may use, the caller's included. Ignored when `pool` is given.
  ThreadPool* pool = nullptr;  ///< The app's own pool; must outlive the session.
  Kernels kernels = Kernels::best;
  int plan_cache = 8;  ///< Plans (one for each combination of input shapes) kept ready.
  /// Bytes that the session or trainer may use: parameters, optimizer state, gradients,
  /// activations, scratch, weights in a kernel's own layout. 0: as many as it takes. What the
  /// caller gives (inputs) and gets (outputs) is the caller's. A limit is kept by computing things
  /// again: results stay the same to the bit.
  int64_t memory_limit = 0;
  /// Inputs with larger extents are refused before anything is planned for them, each axis by its
  /// own limit: a small extent elsewhere does not make up for it. Dimensions without a limit are
  /// free.
  std::vector<DimLimit> max_dims = {};
  /// Whether the same inputs give the same bits for any number of threads. Otherwise they do from
  /// run to run with one number of threads; with another, gradients of convolution weights may
  /// round differently where oneDNN computes them. Costs some scratch memory. Another machine or
  /// build may still round differently.
  bool deterministic = false;
  /// Whether weights that lie in a mapped file may be read from it again whenever they are needed,
  /// where a limit cannot be kept otherwise: only those that a step uses then count. Results stay
  /// the same; it takes longer.
  bool stream_weights = true;
};

/// `64_MiB` and the like, in bytes.
inline namespace literals {
constexpr int64_t operator""_KiB(unsigned long long n) { return static_cast<int64_t>(n) << 10; }
constexpr int64_t operator""_MiB(unsigned long long n) { return static_cast<int64_t>(n) << 20; }
constexpr int64_t operator""_GiB(unsigned long long n) { return static_cast<int64_t>(n) << 30; }
}  // namespace literals

/// What planning found for one combination of shapes. Bytes.
struct PlanInfo {
  int64_t arena_bytes = 0;        ///< Activations, gradients and scratch: one block.
  int64_t lower_bound_bytes = 0;  ///< Largest sum of simultaneously live bytes.
  int64_t packed_bytes = 0;       ///< Weights in a kernel's own layout.
  int64_t state_bytes = 0;        ///< Parameters, buffers and optimizer state in memory.
  int64_t optimizer_bytes = 0;    ///< The optimizer's share of state_bytes.
  int64_t file_bytes = 0;         ///< Weights and optimizer state that stay in files.
  int64_t window_bytes = 0;       ///< The most of them that is in memory at a time.
  int64_t held_bytes = 0;         ///< Results that the program keeps: the loss, dumped gradients.
  int64_t peak_bytes = 0;         ///< All of these together: what training or inference will use.
  int64_t limit_bytes = 0;        ///< The limit that the plan was made for; 0: none.
  int64_t steps = 0;
  int64_t repeated_steps = 0;  ///< Steps that are run again to keep less.
  double extra_time = 0;       ///< Their estimated share of the time that it takes without them.
  double flops = 0;
  bool stored = false;  ///< Whether the plan is one of Model::plans.
  std::string text;     ///< The plan as a table.
};

/// Runs a model. Plans for new input shapes are made on first use, in milliseconds, and kept. After
/// the first run with given shapes, `run` into given outputs allocates nothing; a model in which
/// shapes, branches or loops depend on data is run in stages, each planned, and does allocate. One
/// session belongs to one thread at a time; one model may serve many sessions.
class Session {
 public:
  /// The model's weights are shared, not copied. Errors: unsupported, invalid_argument (a bad
  /// option: which).
  static Result<Session> create(const Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Runs with inputs in the model's order; returns outputs in the model's order, freshly
  /// allocated. Errors: invalid_argument (an input is missing, or has the wrong dtype or shape,
  /// or is above a limit: which, expected, got).
  Result<std::vector<TensorData>> run(std::span<const TensorData> inputs);
  /// By name, in any order. Names that the model does not have are an error.
  Result<std::vector<TensorData>> run(std::span<const NamedTensor> inputs);
  /// Into outputs of the right types (see `output_types`), without allocating.
  Status run(std::span<const TensorData> inputs, std::span<TensorData> outputs);
  /// Types of the outputs for these input shapes. Plans if that was not done yet. Errors:
  /// unsupported where they depend on data.
  Result<std::vector<TensorType>> output_types(std::span<const Shape> input_shapes);
  /// The plan for these input shapes.
  Result<PlanInfo> plan(std::span<const Shape> input_shapes);
  /// The same in full (hone/plan_detail.hpp): every step, and every buffer with its place and life.
  Result<PlanDetail> plan_detail(std::span<const Shape> input_shapes);
  /// Looks for a better plan for these input shapes for so many seconds: fewer steps that run
  /// again, a smaller arena. Uses it from now on and returns it, for Model::plans. Errors: as
  /// `plan`; invalid_argument (seconds).
  Result<StoredPlan> search_plan(std::span<const Shape> input_shapes, double seconds);
  /// Changes SessionOptions::memory_limit between two runs; plans are made anew when they are
  /// needed next. Errors: out_of_memory (the weights alone take more), invalid_argument (below 0);
  /// the limit stays as it was.
  Status set_memory_limit(int64_t bytes);

  /// Times every step of the runs from now on (hone/profile.hpp), and forgets an earlier profile.
  /// Costs a reading of the clock a step; memory only here and when a program runs for the first
  /// time.
  void start_profile(const ProfileOptions& options = {});
  /// Ends that, and forgets the profile.
  void stop_profile();
  /// What was timed since start_profile; empty without one.
  Profile profile() const;

  const Model& model() const;

 private:
  /// The program for these shapes. Errors: as `plan`.
  Result<Compiled*> planned(std::span<const Shape> input_shapes);
  explicit Session(std::unique_ptr<Engine> engine);
  std::unique_ptr<Engine> engine_;
};

}  // namespace hone
