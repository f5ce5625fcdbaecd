// SPDX-License-Identifier: Apache-2.0
// Replaying a model graph through a Builder that infers, folds and decomposes. Bodies of control
// operators are unfolded on the way: what is left to do is one list of nodes, whatever graph they
// come from. A node whose shape rule needs content that nobody knows yet waits, and with it what
// depends on it; the owner finds the content out (by running what there is so far) and goes on.
#pragma once

#include <functional>
#include <list>
#include <map>

#include "hone/control.hpp"
#include "hone/op.hpp"
#include "hone/specialise.hpp"

namespace hone {

using SlotId = int32_t;  ///< Index of a value of any graph that is being replayed.

class Replay {
 public:
  Replay(const Graph& model, const SpecialiseOptions& options);

  /// Checks the input shapes against the model's and binds the named dimensions. Errors:
  /// invalid_argument (which input, which axis, both numbers).
  Status bind(std::span<const Shape> shapes);

  /// From now on nodes go to `b`. Values of the builder before are forgotten, all but those whose
  /// data is set.
  void begin(Builder& b);
  /// The slot of a value of the model.
  SlotId slot(ValueId v) const { return top().slots[static_cast<size_t>(v)]; }
  /// Makes a slot's value an input of the graph being built, or sets what is known of it.
  void set_value(SlotId s, Value v) { slots_[static_cast<size_t>(s)].value = v; }
  void set_data(SlotId s, TensorData data) {
    slots_[static_cast<size_t>(s)].data = std::move(data);
  }
  /// Data of which nothing may depend but through a node that asks for it (`wanted`).
  void set_loose_data(SlotId s, TensorData data) {
    set_data(s, std::move(data));
    slots_[static_cast<size_t>(s)].loose = !slots_[static_cast<size_t>(s)].asked;
  }
  const TensorData& data(SlotId s) const { return slots_[static_cast<size_t>(s)].data; }
  /// The slot's value in the graph being built, put there if it is a constant, a state or known
  /// data; invalid when it is not computed yet.
  Value value(SlotId s);

  /// Replays all that can be. Then `finished`, or some nodes wait. `max_nodes` bounds the graph:
  /// loops go on in the next one.
  Status advance(size_t max_nodes);
  bool finished() const { return items_.empty(); }
  /// Slots that what waits, or the model's outputs, will read.
  std::vector<SlotId> needed() const;
  /// Slots whose content what waits asked for, and a sentence about the first of these nodes.
  const std::vector<SlotId>& wanted() const { return wanted_; }
  const std::string& waiting_for() const { return waiting_for_; }

  /// Inputs whose slots have data are given as inputs under these names.
  const std::map<SlotId, Value>& fed() const { return fed_; }

 private:
  struct Slot {
    Value value;
    TensorData data;
    const ValueInfo* fixed = nullptr;  ///< A constant or state of a graph.
    bool loose = false;  ///< The data may be other the next time; nothing depends on it yet.
    bool asked = false;
  };
  // One graph that is being replayed: the model, or a body.
  struct Frame {
    const Graph* graph = nullptr;
    std::vector<SlotId> slots;  // by value id
    std::string prefix;         // of node names
    int32_t region = 0;         // of all nodes of a body: that of the node it belongs to
  };
  // A loop or scan under way.
  struct Run {
    int frame = 0;  // the node's
    const Node* node = nullptr;
    GraphPtr body;
    int64_t trips = 0, done = 0;  // trips < 0: no bound
    bool has_condition = false;
    SlotId condition = kNone;
    std::vector<SlotId> carried, captured;
    std::vector<std::vector<SlotId>> sequences;  // elements, in the order they are taken
    std::vector<std::vector<SlotId>> stacked;
    int last_frame = -1;  // of the iteration that has been unfolded last
  };
  struct Item {
    int frame = 0;
    const Node* node = nullptr;
    std::shared_ptr<Run> run;
  };
  using Items = std::list<Item>;
  enum class Done : uint8_t { yes, waits };

  const Frame& top() const { return frames_[0]; }
  SlotId new_slot(Slot s);
  int add_frame(const Graph& g, std::string prefix, int32_t region = 0);
  int32_t region_of(int frame, const Node& n) const {
    return frame == 0 ? n.region : frames_[static_cast<size_t>(frame)].region;
  }
  /// What is emitted from now on stands for this node.
  void stand_for(int frame, const Node& n);
  SlotId& slot_of(int frame, ValueId v) {
    return frames_[static_cast<size_t>(frame)].slots[static_cast<size_t>(v)];
  }
  bool available(SlotId s) const;
  const TensorData* content(SlotId s);
  Done want(SlotId s, std::string_view why);
  Result<Done> process(Items::iterator at);
  Result<Done> replay(const Item& item);
  Result<std::vector<Value>> emit(const Node& n, std::span<const Value> inputs);
  bool takes_training_form(const Node& n, std::span<const Value> inputs);
  Result<Done> unfold_if(Items::iterator at);
  Result<Done> start_loop(Items::iterator at);
  Result<Done> start_scan(Items::iterator at);
  Result<Done> iterate(Items::iterator at);
  Result<Done> finish(const Run& run);
  Result<Value> stack(const Run& run, size_t k);
  Result<TensorType> empty_element(const Run& run, size_t k);
  void splice_nodes(Items::iterator after, int frame);
  void refer(const Item& item, const std::function<void(SlotId)>& f) const;

  const Graph& model_;
  Mode mode_;
  bool frozen_in_eval_;
  std::vector<char>
      trained_;  // by value of the new graph: whether it depends on a trained parameter
  Builder* b_ = nullptr;
  size_t max_nodes_ = 0;
  std::vector<Slot> slots_;
  std::vector<Frame> frames_;
  Items items_;
  std::vector<SlotId> wanted_;
  std::string waiting_for_;
  std::map<const ValueInfo*, Value> fixed_;  // constants and states of the graph being built
  std::map<SlotId, Value> fed_;
};

}  // namespace hone
