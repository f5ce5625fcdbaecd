// SPDX-License-Identifier: Apache-2.0
// The exact part of arena packing: does everything fit into so many bytes?
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hone {

/// A buffer as the search sees it. Moments are numbered so that each is a largest set of buffers
/// live together: two buffers meet exactly when they share a moment.
struct PackedItem {
  int64_t size = 0;            ///< Positive, rounded up to the alignment.
  int32_t begin = 0, end = 0;  ///< Live during moments [begin, end).
};

enum class Fits : uint8_t { yes, no, unknown };

/// Searches for offsets below a capacity. Remembers what failed from one call to the next.
class PackingSearch {
 public:
  /// `slots`: entries of the table of failures, a power of two.
  PackingSearch(std::span<const PackedItem> items, int32_t moments, size_t slots);

  /// `rank`: which of several buffers to try first at a place, the smallest number first.
  /// `max_nodes` bounds this call; the answer is `unknown` when it is used up or `keep_going` says
  /// no.
  Fits run(int64_t capacity, std::span<const int32_t> rank, int64_t max_nodes,
           const std::function<bool()>& keep_going);

  /// After run() said yes: one for each item.
  std::span<const int64_t> offsets() const { return offset_; }
  /// Visits to an item at a moment, in all calls together.
  int64_t work() const { return work_; }

 private:
  static constexpr int32_t kGap = -1;

  // A set of unplaced items (a range of order_) that nothing ties to the others, and its moments.
  struct Part {
    int32_t first = 0, last = 0;  ///< order_[first, last)
    int32_t begin = 0, end = 0;   ///< Moments.
  };
  // A part being solved: what may come next at one place, and what came of the choice made.
  struct Frame {
    Part part;
    int32_t moment = 0;
    int64_t gap_to = 0;  ///< Floor of `moment` when nothing is placed there.
    uint64_t key = 0;    ///< Of the state, in the table of failures.
    size_t choices = 0, next_choice = 0;
    size_t parts = 0, next_part = 0;
    size_t trail = 0, placed = 0;
  };
  struct Raised {
    int32_t moment;
    int64_t floor;
  };

  bool open(const Part& part);
  bool choose(Frame& f);
  bool settle(const Part& part);
  void split(const Part& part);
  void find_niches(const Part& part);
  int32_t best_moment(const Part& part) const;
  int64_t next_height(const Part& part, int32_t moment);
  uint64_t key_of(const Part& part) const;
  void place(int32_t item, int64_t offset);
  void raise(int32_t moment, int64_t floor);
  void undo(Frame& f);
  void close(Frame& f);

  const PackedItem& item(int32_t i) const { return items_[static_cast<size_t>(i)]; }
  bool covers(int32_t i, int32_t moment) const {
    return item(i).begin <= moment && moment < item(i).end;
  }

  std::span<const PackedItem> items_;
  int32_t moments_ = 0;
  int64_t capacity_ = 0, work_ = 0;
  std::span<const int32_t> rank_;
  // For each moment: everything below the floor is decided; bytes of the unplaced items.
  std::vector<int64_t> floor_, unplaced_, total_;
  std::vector<int64_t> offset_;   // Of placed items; of unplaced ones the lowest that is possible.
  std::vector<int32_t> order_;    // Items; each part owns a range.
  std::vector<Raised> trail_;     // Floors before they were raised.
  std::vector<int32_t> placed_;   // Items, in the order of placing.
  std::vector<Frame> frames_;     // The stack of the search.
  std::vector<int32_t> choices_;  // Of all frames, one after another.
  std::vector<Part> parts_;       // Likewise.
  std::vector<uint64_t> failed_;
  // Scratch of one step, by moment.
  std::vector<int64_t> lowest_;  // The lowest possible offset of an unplaced item.
  std::vector<int32_t> niche_, starts_, crossing_;
  // By niche: how much a gap costs at least; negative for what is no niche.
  std::vector<int64_t> gap_cost_;
};

}  // namespace hone
