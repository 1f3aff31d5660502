// Tree: who speaks to whom where ranks are asked in rounds, so that no rank asks all others.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::engine {

/// A binomial tree over the ranks 0 .. size-1 with the root 0. A rank's parent is its number without the highest bit,
/// and they meet in the round of that bit: before it the parent has met its own. In a round each rank meets one other
/// at most, so a pass over the tree takes rounds() rounds, whatever the number of ranks.
struct Tree {
  int size = 1;

  constexpr int rounds() const noexcept { return std::bit_width(static_cast<std::uint32_t>(size - 1)); }
  /// The round in which a rank > 0 meets its parent; -1 for the root.
  static constexpr int round_of(int rank) noexcept { return std::bit_width(static_cast<std::uint32_t>(rank)) - 1; }
  static constexpr int parent(int rank) noexcept { return rank - (1 << round_of(rank)); }
  /// The child that `rank` meets in `round`; -1 if there is none.
  constexpr int child(int rank, int round) const noexcept {
    return round > round_of(rank) && rank < size - (1 << round) ? rank + (1 << round) : -1;
  }
  /// The ranks that `rank` meets, its parent included.
  constexpr int meetings(int rank) const noexcept {
    int count = rank > 0 ? 1 : 0;
    for (int round = 0; round < rounds(); ++round) count += child(rank, round) >= 0 ? 1 : 0;
    return count;
  }
};

}  // namespace tutti::engine
