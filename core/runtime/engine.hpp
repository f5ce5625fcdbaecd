// SPDX-License-Identifier: Apache-2.0
// What sessions and trainers share: states, the arena, prepared programs and their running.
#pragma once

#include <unordered_map>

#include "core/plan/program.hpp"
#include "hone/profile.hpp"
#include "hone/session.hpp"
#include "hone/specialise.hpp"

namespace hone {

/// The states of a model, and those that training adds, by name.
class StateStore {
 public:
  using Entry = StateTensor;
  /// Adds or replaces.
  void set(std::string_view name, StateRole role, TensorData data);
  const Entry* find(std::string_view name) const;
  /// Forgets what was added after the first `count` entries.
  void truncate(size_t count);
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Entry>& entries() { return entries_; }
  int64_t bytes() const;
  /// To be called when contents have changed; packed copies are then made again.
  void changed() { ++version_; }
  uint64_t version() const { return version_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
  uint64_t version_ = 1;
};

/// A program with its pointers resolved.
struct Compiled {
  struct Slot {
    size_t operand;  ///< Index into `operands`.
    int32_t index;   ///< Number of the graph input or output.
  };
  Program program;
  std::vector<void*> operands;        ///< Of all steps, one after the other.
  std::vector<size_t> first_operand;  ///< For each step.
  std::vector<Slot> inputs, outputs;
  std::vector<TensorData> packed;
  uint64_t packed_version = 0;
  const std::byte* arena = nullptr;  ///< The arena the pointers were resolved against.
  uint64_t moves = 0;                ///< What Engine::moves_ was then.
  /// Bytes in files, to be released when a step is done with them: from first_release[step] on.
  struct Release {
    const void* data;
    int64_t bytes;
  };
  std::vector<Release> releases;
  std::vector<size_t> first_release;  ///< For each step and one more; empty without releases.

  std::vector<const void*> input_pointers;  ///< Filled by the owner before a run.
  std::vector<void*> output_pointers;
  /// What the program was made for: names (trainers) and types of what is fed, in the caller's
  /// order.
  std::vector<std::string> names;
  std::vector<TensorType> types;
  std::vector<int32_t> slot_of;  ///< For each fed tensor, its graph input.
  int64_t reserved = 0;          ///< Bytes of `held`, and what assumptions keep.
  int64_t beside = 0;            ///< As CompileOptions.
  std::vector<TensorData> held;  ///< Outputs and scalars that live as long as the program.
  uint64_t last_used = 0;
  /// Shapes or branches depend on data: there is no one program, and no steps here. Sessions run
  /// the model in stages.
  bool depends_on_data = false;
  /// What the content of values was taken to be when the graph was made (trainers).
  struct Assumption {
    std::unique_ptr<Compiled> program;  ///< Computes the value as its only output.
    TensorData content;
  };
  std::vector<Assumption> assumptions;
  uint64_t profiled_by = 0;  ///< The profiler that has rows for these steps, by its id; 0: none.
  size_t first_row = 0;      ///< There.
};

class Profiler;
class Staged;

class Engine {
 public:
  Engine(Model model, const SessionOptions& options);
  ~Engine();

  const Model& model() const { return model_; }
  StateStore& states() { return states_; }
  const StateStore& states() const { return states_; }
  ThreadPool& pool() { return *pool_; }
  const SessionOptions& options() const { return options_; }

  struct CompileOptions {
    int64_t reserved = 0;  ///< Bytes that the owner will keep for the program beside its arena.
    int64_t added = 0;     ///< Bytes of states that the owner will add once there is a plan.
    int64_t beside = 0;    ///< Bytes of other programs that stay ready with this one.
    bool replans = false;  ///< Whether it will be planned anew for other limits.
    /// Ends the sentence about a limit that cannot be kept; empty: the owner explains it himself.
    std::string_view advice;
  };
  static constexpr std::string_view kSmallerInputs = "a smaller batch or smaller inputs take less";
  /// Prepares a graph; its states are looked up in the store by name when it is bound. Errors: as
  /// `prepare`.
  Result<std::unique_ptr<Compiled>> compile(Graph graph, const CompileOptions& options);
  Result<std::unique_ptr<Compiled>> compile(Graph graph) { return compile(std::move(graph), {}); }
  /// What the program would be within another limit (0: none), with these states in files. Errors:
  /// out_of_memory.
  Result<Program> planned(const Compiled& c, int64_t limit, const PagedStates& paged) const;
  Result<Program> planned(const Compiled& c, int64_t limit) const {
    return planned(c, limit, paged_);
  }
  /// States that one of these programs may leave in files, smallest first; those in `paged` are not
  /// among them.
  std::vector<std::string> pageable(std::span<const Graph* const> graphs,
                                    const PagedStates& paged) const;
  std::vector<std::string> pageable(const Graph& g, const PagedStates& paged) const {
    const Graph* const one = &g;
    return pageable({&one, 1}, paged);
  }
  /// From now on these states lie in files, the others in memory. Errors: as
  /// platform::map_spill_file, out_of_memory; nothing has changed then.
  Status set_paged(PagedStates paged);
  /// Takes over states that are not in the store yet, and contents of weights that are read from a
  /// file: what lies in a mapped file and is never written stays there, the rest is copied. Within
  /// the limit optimizer state goes to files where it must and may. Errors: out_of_memory, as
  /// platform::map_spill_file; nothing has changed then.
  Status adopt_states(std::span<const StateTensor* const> states);
  /// Room for a state: in a file if it is to lie there. Errors: as above.
  Result<TensorData> state_zeros(std::string_view name, const TensorType& type) const;
  /// TrainerOptions::recompute_share, of programs that are planned anew for other limits.
  double recompute_share = 0;
  /// Where optimizer state may lie (TrainerOptions::spill_folder).
  std::string spill_folder;
  /// To be called when the bytes of a state lie elsewhere.
  void moved() { ++moves_; }
  /// Gives the program another plan of it.
  Status adopt(Compiled& c, Program plan) const;

  /// Betters the program's plan for so long, in seconds, and gives what it comes to.
  Result<StoredPlan> search_plan(Compiled& c, double seconds, std::string name);

  /// What a graph takes at least, and where.
  struct Least {
    int64_t total = 0;  ///< The smallest memory limit that works.
    int64_t arena = 0, packed = 0;
    int64_t in_files = 0;  ///< Of what could be in memory.
    std::string where;     ///< The step with the most live bytes.
  };
  Result<Least> least(const Graph& graph, const CompileOptions& options) const;
  /// What the states take, by role.
  struct Shares {
    int64_t parameters = 0, optimizer = 0, other = 0;
  };
  Shares shares() const;
  /// The error of a limit that cannot be kept: the smallest that works, and what takes it. `advice`
  /// says what would help.
  Status refusal(const Least& least, const Shares& shares, std::string_view advice) const;

  /// Bytes that are in use whatever program runs: states, what the owner keeps beside them.
  int64_t lasting_bytes() const { return lasting_bytes(paged_); }
  /// The same with these states in files.
  int64_t lasting_bytes(const PagedStates& paged) const;
  int64_t kept_bytes = 0;
  /// These and what cached programs keep.
  int64_t fixed_bytes() const { return lasting_bytes() + cached_bytes(); }
  /// Sets the limit (0: none) and gives the arena back. Programs must be planned anew or dropped.
  void set_memory_limit(int64_t bytes);
  /// Runs steps [first, last) with the pointers in `c`.
  Status run(Compiled& c, size_t first, size_t last);
  Status run(Compiled& c) { return run(c, 0, c.program.steps.size()); }
  /// Resolves pointers and packs weights where the arena or the states have changed. Called before
  /// `run`.
  Status bind(Compiled& c);
  /// As Session's.
  void start_profile(const ProfileOptions& options);
  void stop_profile();
  Profile profile() const;
  PlanInfo info(const Compiled& c) const;

  /// Drops the least recently used entries of a cache until it is within options().plan_cache.
  void trim(std::vector<std::unique_ptr<Compiled>>& cache) const;
  uint64_t next_use() { return ++clock_; }

  /// Inference programs by input types.
  std::vector<std::unique_ptr<Compiled>> infer_cache;
  /// Caches of programs whose bytes count, and that are emptied when memory is short.
  std::vector<std::vector<std::unique_ptr<Compiled>>*> caches = {&infer_cache};
  /// The inference program for these types, made if there is none.
  Result<Compiled*> infer_program(std::span<const TensorType> types);
  /// Runs the model in stages. Errors: as Session::run.
  Result<std::vector<TensorData>> run_staged(std::span<const TensorData> inputs);

 private:
  Status run_profiled(Compiled& c, size_t first, size_t last, std::byte* arena);
  /// Packs weights where they have changed. May give the arena back.
  Status pack(Compiled& c);
  /// Weights in mapped files that no step of a program that is ready reads: they are in memory only
  /// while they are packed.
  struct Originals {
    std::set<std::string_view> names;
    int64_t most_at_once = 0;  ///< Of those that the program packs.
  };
  Originals originals(const Compiled& c) const;
  Status resolve(Compiled& c);
  PrepareOptions how_to_prepare() const;
  Result<Program> prepare_within(const Graph& graph, const CompileOptions& options);
  Result<Program> prepare_paged(const Graph& graph, const CompileOptions& options);
  /// Bytes in use once the graph's program is there, without its arena and packed weights, and what
  /// is in files.
  int64_t bytes_beside(const Graph& g, const CompileOptions& options,
                       const PagedStates& paged) const;
  Result<Least> least(const Graph& graph, const CompileOptions& options,
                      const PagedStates& paged) const;
  bool may_page(const ValueInfo& state) const;
  void note_releases(Compiled& c) const;
  int64_t cached_bytes() const;
  static void index_operands(Compiled& c);
  Status keep_limit(Compiled& c);
  int64_t room_for(const Compiled& c, int64_t limit, const PagedStates& paged) const;

  Model model_;
  SessionOptions options_;
  std::unique_ptr<ThreadPool> own_pool_;
  ThreadPool* pool_ = nullptr;
  StateStore states_;
  std::unique_ptr<Staged> staged_;
  std::unique_ptr<Profiler> profiler_;
  uint64_t profiles_ = 0;  // started so far
  PagedStates paged_;
  uint64_t moves_ = 1;
  TensorData arena_;
  uint64_t clock_ = 0;
};

/// Copies bytes from one tensor to another of the same size; no page of a mapped file stays in
/// memory.
void copy_through(const TensorData& from, TensorData& to);

/// Calls attempt(states in files) with as few of `names`, taken from the front, as suffice; `none`
/// is without any of them. It must suffice with more where it does with fewer. Returns the attempt
/// that did, or an error other than out_of_memory at once.
template <class Attempt>
auto with_fewest(std::span<const std::string> names, const PagedStates& none,
                 const Attempt& attempt) -> decltype(attempt(none)) {
  const auto with = [&](size_t count) {
    PagedStates set = none;
    set.insert(names.begin(), names.begin() + static_cast<ptrdiff_t>(count));
    return attempt(set);
  };
  size_t too_few = 0, enough = names.size();
  auto best = with(enough);
  while (best.ok() && enough - too_few > 1) {
    const size_t middle = (too_few + enough) / 2;
    auto tried = with(middle);
    if (!tried.ok() && tried.status().code() != Code::out_of_memory) return tried;
    (tried.ok() ? enough : too_few) = middle;
    if (tried.ok()) best = std::move(tried);
  }
  return best;
}

/// Checks that `got` fits graph input `want`'s dtype. Errors: invalid_argument.
Status check_dtype(const Graph& g, ValueId input, DType got);
/// Checks an input's extents against SessionOptions::max_dims. Errors: invalid_argument (input,
/// axis and limit).
Status check_extents(const Graph& g, ValueId input, const Shape& got,
                     std::span<const DimLimit> limits);
/// Checks that the limits name dimensions of the graph. Errors: invalid_argument.
Status check_limits(const Graph& g, std::span<const DimLimit> limits);

/// What the kernels' backend wants written out.
WritesOut writes_out(Kernels kernels, Mode mode);

}  // namespace hone
