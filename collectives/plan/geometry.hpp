// Geometry: rings, trees, and the division of a buffer into chunks and blocks. No I/O.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/schedule.hpp"

namespace tutti {

/// `count` elements divided into `parts` chunks of equal size, where the first count % parts chunks have one more
/// element. Indices are taken modulo `parts`, also negative ones.
class Chunks {
 public:
  Chunks(std::size_t count, int parts) noexcept : count_(count), parts_(parts) {}
  Range operator[](int i) const noexcept;
  /// The range of the chunks first, ..., first + n - 1, which must not wrap around.
  Range run(int first, int n) const noexcept;
  int parts() const noexcept { return parts_; }

 private:
  std::size_t count_;
  int parts_;
};

/// The blocks of a buffer, one per rank, stored in rank order: all of `count` elements, or with separate counts.
/// Indices are taken modulo the number of blocks.
class Blocks {
 public:
  Blocks(std::size_t count, int parts, std::span<const std::size_t> counts = {});
  explicit Blocks(const Chunks& chunks);
  Range operator[](int i) const noexcept;
  /// The range of the blocks first, ..., first + n - 1, which must not wrap around.
  Range run(int first, int n) const noexcept;
  /// The same blocks stored in the order first, first + 1, ..., first - 1 (modulo parts()); index 0 is block `first`.
  Blocks rotated(int first) const;
  int parts() const noexcept { return parts_; }
  std::size_t largest() const noexcept;
  std::size_t total() const noexcept;

 private:
  std::size_t count_;
  int parts_;
  std::vector<std::size_t> offsets_;  // only if counts differ
};

/// A binomial tree. Ranks are relabelled so that the root has label 0; the parent of label v is v with its lowest set
/// bit cleared, and its subtree is the labels [v, v + span()).
struct BinomialTree {
  int rank, size, root;
  int label() const noexcept { return (rank + size - root) % size; }
  int rank_of(int v) const noexcept { return (v + root) % size; }
  /// The lowest set bit of the label: the maximum size of the subtree. For the root, a power of two >= size.
  int reach() const noexcept;
  int span() const noexcept;
  int parent() const noexcept { return rank_of(label() - reach()); }  ///< not defined for the root
  /// The children, those with the largest reach first.
  struct Child {
    int label, rank, span;
  };
  std::vector<Child> children() const;
};

struct Ring {
  int rank, size;
  int next() const noexcept { return (rank + 1) % size; }
  int prev() const noexcept { return (rank + size - 1) % size; }
};

/// The elements of n buffers or blocks of `count` each.
constexpr std::size_t times(int n, std::size_t count) noexcept { return static_cast<std::size_t>(n) * count; }
/// i modulo n in [0, n), also for negative i.
constexpr int modulo(int i, int n) noexcept { return ((i % n) + n) % n; }
/// For n >= 1: the largest power of two <= n; its exponent; and the exponent of the smallest power of two >= n.
constexpr int power_of_two_below(int n) noexcept {
  int p = 1;
  while (p <= n / 2) p *= 2;
  return p;
}
constexpr int log2_floor(int n) noexcept {
  int k = 0;
  while (n >>= 1) ++k;
  return k;
}
constexpr int log2_ceil(int n) noexcept {
  int k = 0;
  while ((1LL << k) < n) ++k;
  return k;
}

}  // namespace tutti
