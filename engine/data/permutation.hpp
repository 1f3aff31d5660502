// Permutation: the numbers below a bound in a random order, computed one at a time.
#pragma once

#include <array>
#include <cstdint>

#include "engine/data/random.hpp"

namespace tutti::engine {

/// A permutation of [0, count) that is computed place by place in constant memory, the same on every platform. A
/// Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988)
/// permutes the numbers of as many bits as `count` needs; a result beyond `count` is permuted again until it is below
/// ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains", 2002), which on average takes less
/// than two turns.
class Permutation {
 public:
  static constexpr std::uint64_t most = std::uint64_t{1} << 62;  ///< the largest `count`

  /// `keys` is the stream from which the permutation is chosen; 0 < count <= most.
  Permutation(std::uint64_t count, Random keys) noexcept;

  /// The number at place i < count. Every number below `count` has exactly one place.
  std::uint64_t operator()(std::uint64_t i) const noexcept {
    do i = permuted(i);
    while (i >= count_);
    return i;
  }

 private:
  static constexpr std::size_t rounds = 8;
  std::uint64_t permuted(std::uint64_t number) const noexcept;

  std::uint64_t count_;
  int low_bits_;
  std::uint64_t low_mask_, high_mask_;
  std::array<std::uint64_t, rounds> keys_;
};

}  // namespace tutti::engine
