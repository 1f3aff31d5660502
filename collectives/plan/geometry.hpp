// Geometry: rings, trees, and the division of a buffer into chunks and blocks. No I/O. All classes except BlockTable
// are plain data and allocate no memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/schedule.hpp"

namespace tutti {

/// i modulo n in [0, n), also for negative i.
constexpr int modulo(int i, int n) noexcept {
  if (i < 0) i += n;  // the most frequent arguments need no division
  if (i >= 0 && i < n) return i;
  i %= n;
  return i < 0 ? i + n : i;
}

/// `count` elements divided into `parts` chunks of equal size, but the first count % parts chunks have one element
/// more. Indices may be negative, and are taken modulo `parts`.
class Chunks {
 public:
  Chunks(std::size_t count, int parts) noexcept
      : each_(count / static_cast<std::size_t>(parts)),
        longer_(static_cast<int>(count % static_cast<std::size_t>(parts))),
        parts_(parts) {}
  Range operator[](int i) const noexcept { return run(modulo(i, parts_), 1); }
  /// The range of the chunks first, ..., first + n - 1, which must not wrap around.
  Range run(int first, int n) const noexcept { return {begin(first), begin(first + n) - begin(first)}; }
  int parts() const noexcept { return parts_; }

 private:
  friend class Blocks;
  std::size_t begin(int i) const noexcept {
    return static_cast<std::size_t>(i) * each_ + static_cast<std::size_t>(std::min(i, longer_));
  }

  std::size_t each_;  // elements of a chunk
  int longer_;        // number of the first chunks, which have one element more
  int parts_;
};

/// The offset of each block of a v-form. Every rank makes its own table once per call. Takes 8 bytes for each rank, 16
/// with hosts.
class BlockTable {
 public:
  BlockTable() = default;
  explicit BlockTable(std::span<const std::size_t> counts, const Hosts* hosts = nullptr) { assign(counts, hosts); }

  /// Sets the table from the counts by rank. With `hosts`, also computes the offsets for blocks in the order of
  /// columns: Hosts::whole_column(0), then whole_column(1), ...
  void assign(std::span<const std::size_t> counts, const Hosts* hosts = nullptr);
  bool empty() const noexcept { return offsets_.empty(); }

  /// Element i: the sum of the counts before block i; size + 1 of them.
  std::span<const std::size_t> offsets() const noexcept { return offsets_; }
  /// The same for blocks in the order of columns; empty without hosts.
  std::span<const std::size_t> by_column() const noexcept { return by_column_; }
  std::size_t largest() const noexcept { return largest_; }
  /// The most elements of a column, and of one host's part of a column; 0 without hosts.
  std::size_t largest_column() const noexcept { return largest_column_; }
  std::size_t largest_part() const noexcept { return largest_part_; }
  std::size_t bytes() const noexcept { return (offsets_.capacity() + by_column_.capacity()) * sizeof(std::size_t); }

 private:
  std::vector<std::size_t> offsets_, by_column_;
  std::size_t largest_ = 0, largest_column_ = 0, largest_part_ = 0;
};

/// The blocks of a buffer, one per rank, stored in rank order. Each has `count` elements, or the size that `table` has
/// for it. Indices are taken modulo the number of blocks.
class Blocks {
 public:
  Blocks(std::size_t count, int parts, const BlockTable* table = nullptr) noexcept
      : each_(count), parts_(parts), chunks_(parts), table_(table) {}
  explicit Blocks(const Chunks& chunks) noexcept : Blocks(chunks, chunks.parts()) {}
  /// The first blocks are the chunks, the others are empty.
  Blocks(const Chunks& chunks, int parts) noexcept
      : each_(chunks.each_), parts_(parts), chunks_(chunks.parts_), longer_(chunks.longer_) {}

  Range operator[](int i) const noexcept { return run(modulo(i, parts_), 1); }
  /// The range of the blocks first, ..., first + n - 1, which must not wrap around.
  Range run(int first, int n) const noexcept {
    const std::size_t from = begin(first);
    return {from, begin(first + n) - from};
  }
  /// The same blocks stored in the order first, first + 1, ..., first - 1 (modulo parts()); index 0 is block `first`.
  /// Blocks that are rotated already must not be rotated again.
  Blocks rotated(int first) const noexcept;
  int parts() const noexcept { return parts_; }
  std::size_t largest() const noexcept { return table_ != nullptr ? table_->largest() : each_ + (longer_ > 0 ? 1 : 0); }
  std::size_t total() const noexcept { return stored(parts_); }

 private:
  /// The offset of block i, 0 <= i <= parts.
  std::size_t begin(int i) const noexcept { return first_ == 0 ? stored(i) : turned(i); }
  std::size_t stored(int i) const noexcept {
    if (table_ != nullptr) return table_->offsets()[static_cast<std::size_t>(i)];
    const int k = std::min(i, chunks_);
    return static_cast<std::size_t>(k) * each_ + static_cast<std::size_t>(std::min(k, longer_));
  }
  std::size_t turned(int i) const noexcept;

  std::size_t each_;
  int parts_, chunks_;
  int longer_ = 0, first_ = 0;
  const BlockTable* table_ = nullptr;
};

/// A binomial tree. Ranks are relabelled so that the root has label 0; the parent of label v is v with its lowest set
/// bit cleared, and its subtree is the labels [v, v + span()).
struct BinomialTree {
  int rank, size, root;
  int label() const noexcept { return rank >= root ? rank - root : rank + size - root; }
  int rank_of(int v) const noexcept { return v < size - root ? v + root : v + root - size; }
  /// The lowest set bit of the label: the maximum size of the subtree. For the root, a power of two >= size.
  int reach() const noexcept;
  int span() const noexcept { return std::min(reach(), size - label()); }
  int parent() const noexcept { return rank_of(label() - reach()); }  ///< not defined for the root
  struct Child {
    int label, rank, span;
  };
  /// The number of children, and child i; child 0 has the largest reach.
  int children() const noexcept;
  Child child(int i) const noexcept;
};

struct Ring {
  int rank, size;
  int next() const noexcept { return rank + 1 < size ? rank + 1 : 0; }
  int prev() const noexcept { return rank > 0 ? rank - 1 : size - 1; }
};

/// The elements of n buffers or blocks of `count` each.
constexpr std::size_t times(int n, std::size_t count) noexcept { return static_cast<std::size_t>(n) * count; }
/// For n >= 1: the largest power of two <= n; its exponent; and the exponent of the smallest power of two >= n.
constexpr int power_of_two_below(int n) noexcept { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
constexpr int log2_floor(int n) noexcept { return std::bit_width(static_cast<unsigned>(n)) - 1; }
constexpr int log2_ceil(int n) noexcept { return std::bit_width(static_cast<unsigned>(n) - 1); }

/// The hosts of a shape's ranks. If shape.hosts is null: a table of one host with shape.size ranks, which is made once
/// and valid until the process ends. Any thread.
const Hosts& hosts_of(const Shape& shape);

}  // namespace tutti
