// Pattern: buffer contents with a known result, so that memcmp() can check every element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// The values of every rank repeat with a prime period, differ between consecutive iterations, and are small integers
/// whose sums are exact in every dtype. So the result does not depend on the order of folding, and is computed once per
/// period. The check detects results of an earlier iteration, misplaced blocks and lost contributions.
class Pattern {
 public:
  Pattern(const Case& what, int rank);

  /// Writes this rank's contribution to iteration `epoch`.
  void fill(const Case& what, std::byte* in, std::byte* out, unsigned epoch) const;

  /// Returns the number of wrong elements in this rank's result.
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
  double tolerance_;            ///< relative to the expected value; 0: exact
  std::vector<Table> values_;   ///< by epoch and rank
  std::vector<Table> reduced_;  ///< by epoch
};

/// The operands of a call within this rank's two buffers.
struct Operands {
  const std::byte* in;
  std::byte* out;
};
Operands operands(const Case& what, int rank, std::byte* in, std::byte* out) noexcept;

}  // namespace tutti::bench
