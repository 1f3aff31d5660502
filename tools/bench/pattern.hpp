// Pattern: contents whose collective is known beforehand, so that every element can be checked at the speed of memcmp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// The values of every rank repeat with a period that is prime, differ from iteration to iteration, and are small whole
/// numbers, whose sums are exact in every dtype: so any order of folding gives the same result, and it is
/// computed once for the period. A result of an earlier iteration, a block in the wrong place or a
/// lost contribution does not pass.
class Pattern {
 public:
  Pattern(const Case& what, int rank);

  /// Writes what this rank contributes in `epoch` (the iteration's number).
  void fill(const Case& what, std::byte* in, std::byte* out, unsigned epoch) const;

  /// How many elements of this rank's result are wrong.
  std::uint64_t wrong(const Case& what, const std::byte* in, const std::byte* out, unsigned epoch) const;

 private:
  using Table = std::vector<std::byte>;
  void tile(std::byte* into, std::size_t count, const Table& table, std::size_t phase) const;
  std::uint64_t differ(const std::byte* from, std::size_t count, const Table& table, std::size_t phase) const;
  bool close(const std::byte* a, const std::byte* b) const;
  const Table& values(int rank, unsigned epoch) const { return values_[epoch % epochs * ranks_ + rank]; }

  static constexpr unsigned epochs = 4;
  DType dtype_;
  int rank_;
  unsigned ranks_;
  double tolerance_;            ///< relative; 0: exact
  std::vector<Table> values_;   ///< by epoch and rank
  std::vector<Table> reduced_;  ///< by epoch
};

/// Where an implementation reads and writes, given this rank's two buffers.
struct Operands {
  const std::byte* in;
  std::byte* out;
};
Operands operands(const Case& what, int rank, std::byte* in, std::byte* out) noexcept;

}  // namespace tutti::bench
