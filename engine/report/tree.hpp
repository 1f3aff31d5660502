// Tree: a binomial tree of ranks for queries in rounds, so that no rank has to contact all others.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::engine {

/// A binomial tree over the ranks 0 .. size-1 with the root 0. A rank's parent is its number without the highest bit.
/// The two communicate in the round of that bit; before that round the parent has communicated with its own parent. A
/// rank has at most one partner in a round, so a pass over the tree takes rounds() rounds, the logarithm of the ranks.
struct Tree {
  int size = 1;

  constexpr int rounds() const noexcept { return std::bit_width(static_cast<std::uint32_t>(size - 1)); }
  /// The round in which a rank > 0 communicates with its parent; -1 for the root.
  static constexpr int round_of(int rank) noexcept { return std::bit_width(static_cast<std::uint32_t>(rank)) - 1; }
  static constexpr int parent(int rank) noexcept { return rank - (1 << round_of(rank)); }
  /// The child of `rank` in `round`; -1 if there is none.
  constexpr int child(int rank, int round) const noexcept {
    return round > round_of(rank) && rank < size - (1 << round) ? rank + (1 << round) : -1;
  }
  /// The number of ranks that `rank` communicates with, including its parent.
  constexpr int meetings(int rank) const noexcept {
    int count = rank > 0 ? 1 : 0;
    for (int round = 0; round < rounds(); ++round) count += child(rank, round) >= 0 ? 1 : 0;
    return count;
  }
};

}  // namespace tutti::engine
