// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's operators that turn blocks of cells into channels or batches, and back. All are
// a reshape, a transpose and a reshape.
#include <algorithm>

#include "core/import/tflite_ctx.hpp"

namespace hone::tflite {

namespace {

// Products of these stay within 64 bits.
constexpr int64_t kLargestBlock = 1 << 15, kLargestExtent = int64_t{1} << 31;

Value rearrange(ImportCtx& c, Value v, std::vector<int64_t> split, std::vector<int64_t> perm,
                std::vector<int64_t> joined) {
  v = c.emit(op::reshape, {v}, ShapeAttrs{std::move(split), true});
  v = c.emit(op::transpose, {v}, PermAttrs{std::move(perm)});
  return c.emit(op::reshape, {v}, ShapeAttrs{std::move(joined), true});
}

// Extents of input 0 from axis 1 on; false, and told, when one is free or a block is impossible.
bool blocks_known(ImportCtx& c, std::span<const int64_t> e, std::span<const int64_t> blocks) {
  for (const int64_t block : blocks)
    if (block < 1 || block > kLargestBlock) c.fail("a block of {} cells", block);
  for (size_t k = 1; k < e.size(); ++k) {
    if (e[k] < 0) c.unsupported("of a free extent");
    if (e[k] > kLargestExtent) c.fail("an extent of {}", e[k]);
  }
  return c.status().ok() && c.missing().empty();
}

// (N, H b, W b, C) -> (N, H, b, W, b, C) -> (N, H, W, b b C)
void import_space_to_depth(ImportCtx& c) {
  const auto* o = c.options<schema::SpaceToDepthOptions>();
  if (!o || !c.require(1) || !c.require_rank(0, 4)) return;
  const int64_t b = o->block_size();
  const std::vector<int64_t> e = c.extents(0);
  if (!blocks_known(c, e, {&b, 1})) return;
  if (e[1] % b != 0 || e[2] % b != 0)
    return c.fail("{} x {} cells are no blocks of {}", e[1], e[2], b);
  c.set(0, rearrange(c, c.in(0), {-1, e[1] / b, b, e[2] / b, b, e[3]}, {0, 1, 3, 2, 4, 5},
                     {-1, e[1] / b, e[2] / b, b * b * e[3]}));
}

// (N, H, W, b b C) -> (N, H, W, b, b, C) -> (N, H b, W b, C)
void import_depth_to_space(ImportCtx& c) {
  const auto* o = c.options<schema::DepthToSpaceOptions>();
  if (!o || !c.require(1) || !c.require_rank(0, 4)) return;
  const int64_t b = o->block_size();
  const std::vector<int64_t> e = c.extents(0);
  if (!blocks_known(c, e, {&b, 1})) return;
  if (e[3] % (b * b) != 0) return c.fail("{} channels are no blocks of {} x {}", e[3], b, b);
  const int64_t channels = e[3] / (b * b);
  c.set(0, rearrange(c, c.in(0), {-1, e[1], e[2], b, b, channels}, {0, 1, 3, 2, 4, 5},
                     {-1, e[1] * b, e[2] * b, channels}));
}

// Inputs: x, a block's extents, pairs of what is added to (or cut from) each blocked axis.
struct Blocks {
  std::vector<int64_t> extents, block, pairs;
};

bool read_blocks(ImportCtx& c, Blocks& out) {
  if (!c.require(3)) return false;
  out = {c.extents(0), c.fixed_ints(1, "blocks"), c.fixed_ints(2, "paddings")};
  if (!c.missing().empty() || !blocks_known(c, out.extents, out.block)) return false;
  if (out.block.size() + 1 > out.extents.size() || out.pairs.size() != 2 * out.block.size() ||
      out.extents.size() + out.block.size() > kMaxRank)
    c.fail("{} blocks and {} paddings for {} dimensions", out.block.size(), out.pairs.size(),
           out.extents.size());
  for (const int64_t n : out.pairs)
    if (n < 0 || n > kLargestBlock) c.fail("a padding of {}", n);
  return c.status().ok();
}

// (N, H b, W c, ..) -> (N, H, b, W, c, ..) -> (b, c, N, H, W, ..) -> (b c N, H, W, ..)
void import_space_to_batch(ImportCtx& c) {
  Blocks s;
  if (!read_blocks(c, s)) return;
  const size_t rank = s.extents.size(), blocked = s.block.size();
  PadAttrs pad;
  pad.before.assign(rank, 0), pad.after.assign(rank, 0);
  std::vector<int64_t> split = {-1}, joined = {-1}, perm, cells;
  for (size_t k = 0; k < blocked; ++k) {
    pad.before[k + 1] = s.pairs[2 * k], pad.after[k + 1] = s.pairs[2 * k + 1];
    const int64_t n = s.extents[k + 1] + s.pairs[2 * k] + s.pairs[2 * k + 1];
    if (n % s.block[k] != 0) return c.fail("{} cells are no blocks of {}", n, s.block[k]);
    split.push_back(n / s.block[k]), split.push_back(s.block[k]);
    joined.push_back(n / s.block[k]);
    perm.push_back(static_cast<int64_t>(2 * k + 2)),
        cells.push_back(static_cast<int64_t>(2 * k + 1));
  }
  perm.push_back(0);
  perm.insert(perm.end(), cells.begin(), cells.end());
  for (size_t k = blocked + 1; k < rank; ++k) {
    split.push_back(s.extents[k]), joined.push_back(s.extents[k]);
    perm.push_back(static_cast<int64_t>(k + blocked));
  }
  c.set(0, rearrange(c, c.emit(op::pad, {c.in(0)}, pad), split, perm, joined));
}

// (b c N, H, W, ..) -> (b, c, N, H, W, ..) -> (N, H, b, W, c, ..) -> (N, H b, W c, ..)
void import_batch_to_space(ImportCtx& c) {
  Blocks s;
  if (!read_blocks(c, s)) return;
  const size_t rank = s.extents.size(), blocked = s.block.size();
  std::vector<int64_t> split = s.block, joined = {-1}, perm = {static_cast<int64_t>(blocked)};
  split.push_back(-1);
  SliceAttrs crop;
  for (size_t k = 0; k < blocked; ++k) {
    const int64_t n = s.extents[k + 1];
    split.push_back(n);
    joined.push_back(n * s.block[k]);
    perm.push_back(static_cast<int64_t>(blocked + k + 1)), perm.push_back(static_cast<int64_t>(k));
    if (s.pairs[2 * k] + s.pairs[2 * k + 1] > n * s.block[k])
      return c.fail("more is cut off than the {} cells there are", n * s.block[k]);
    crop.axes.push_back(static_cast<int64_t>(k + 1));
    crop.starts.push_back(s.pairs[2 * k]);
    crop.ends.push_back(n * s.block[k] - s.pairs[2 * k + 1]);
  }
  for (size_t k = blocked + 1; k < rank; ++k) {
    split.push_back(s.extents[k]), joined.push_back(s.extents[k]);
    perm.push_back(static_cast<int64_t>(k + blocked));
  }
  c.set(0, c.emit(op::slice, {rearrange(c, c.in(0), split, perm, joined)}, crop));
}

constexpr ImportRule kImports[] = {
    {Builtin::BATCH_TO_SPACE_ND, import_batch_to_space, nullptr, Elements::picked},
    {Builtin::DEPTH_TO_SPACE, import_depth_to_space, nullptr, Elements::picked},
    {Builtin::SPACE_TO_BATCH_ND, import_space_to_batch, nullptr, Elements::picked},
    {Builtin::SPACE_TO_DEPTH, import_space_to_depth, nullptr, Elements::picked},
};

}  // namespace

std::span<const ImportRule> blocks_imports() { return kImports; }

}  // namespace hone::tflite
