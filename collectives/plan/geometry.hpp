// Geometry: who is next to whom, and how a buffer is shared out. No I/O.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/schedule.hpp"

namespace tutti {

/// `count` elements cut into `parts` chunks as equal as can be; the first ones are larger by one.
/// The index is taken modulo `parts`, negative ones too.
class Chunks {
 public:
  Chunks(std::size_t count, int parts) noexcept : count_(count), parts_(parts) {}
  Range operator[](int i) const noexcept;
  /// The chunks first, first + 1, ..., first + n - 1 together, without wrapping round.
  Range run(int first, int n) const noexcept;
  int parts() const noexcept { return parts_; }

 private:
  std::size_t count_;
  int parts_;
};

/// Blocks of a buffer, one for each rank: all of `count` elements, or with counts of their own.
/// Packed in rank order; the index is taken modulo the number of blocks.
class Blocks {
 public:
  Blocks(std::size_t count, int parts, std::span<const std::size_t> counts = {});
  explicit Blocks(const Chunks& chunks);
  Range operator[](int i) const noexcept;
  /// The blocks first, first + 1, ..., first + n - 1 together, without wrapping round.
  Range run(int first, int n) const noexcept;
  /// The same blocks packed in the order first, first + 1, ..., round to first - 1; index 0 is the old `first`.
  Blocks rotated(int first) const;
  int parts() const noexcept { return parts_; }
  std::size_t largest() const noexcept;
  std::size_t total() const noexcept;

 private:
  std::size_t count_;
  int parts_;
  std::vector<std::size_t> offsets_;  // only where counts differ
};

/// A binomial tree over the ranks, relabelled so that the root is 0: label v's parent is v without its lowest bit,
/// and its subtree is the labels [v, v + span()).
struct BinomialTree {
  int rank, size, root;
  int label() const noexcept { return (rank + size - root) % size; }
  int rank_of(int v) const noexcept { return (v + root) % size; }
  /// The lowest bit of the label: how many labels the subtree has room for. The root's covers all.
  int reach() const noexcept;
  int span() const noexcept;
  int parent() const noexcept { return rank_of(label() - reach()); }  ///< not for the root
  /// The labels and subtrees of the children, the largest reach first.
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

/// i modulo n in [0, n), also for negative i.
constexpr int modulo(int i, int n) noexcept { return ((i % n) + n) % n; }
/// For n >= 1: the largest power of two that is at most n; its exponent; the exponent of the smallest that is at least
/// n.
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
