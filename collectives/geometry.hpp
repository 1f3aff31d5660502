// Geometry: who is next to whom, and how a buffer is shared out. No I/O.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/schedule.hpp"

namespace tutti {

/// `count` elements cut into `parts` chunks as equal as can be; the first ones are larger by one.
/// The index is taken modulo `parts`, negative ones too.
class Chunks {
 public:
  Chunks(std::size_t count, int parts) noexcept : count_(count), parts_(parts) {}
  Range operator[](int i) const noexcept;
  /// The chunks first, first + 1, ..., first + n - 1 together, without wrapping round.
  Range run(int first, int n) const noexcept;

 private:
  std::size_t count_;
  int parts_;
};

/// Blocks of a buffer, one for each rank: all of `count` elements, or with counts of their own.
/// Packed in rank order; the index is taken modulo the number of blocks.
class Blocks {
 public:
  Blocks(std::size_t count, int parts, std::span<const std::size_t> counts = {});
  Range operator[](int i) const noexcept;
  std::size_t total() const noexcept;

 private:
  std::size_t count_;
  int parts_;
  std::vector<std::size_t> offsets_;  // only where counts differ
};

struct Ring {
  int rank, size;
  int next() const noexcept { return (rank + 1) % size; }
  int prev() const noexcept { return (rank + size - 1) % size; }
};

/// i modulo n in [0, n), also for negative i.
constexpr int modulo(int i, int n) noexcept { return ((i % n) + n) % n; }
/// The largest power of two that is at most n (n >= 1), and the exponent of the smallest at least n.
constexpr int power_of_two_below(int n) noexcept {
  int p = 1;
  while (p <= n / 2) p *= 2;
  return p;
}
constexpr int log2_ceil(int n) noexcept {
  int k = 0;
  while ((1LL << k) < n) ++k;
  return k;
}

}  // namespace tutti
