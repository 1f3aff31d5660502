// Model: from measured times of several candidates to the few ranges of sizes in which each is best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::tune {

/// The times of a candidate at the measured sizes. In between, the logarithm of the time is interpolated linearly over
/// the logarithm of the size, which is exact for a power law and close for latency + bytes / bandwidth.
struct Curve {
  std::string target;           ///< "ring", "gloo/bcube"
  std::vector<double> seconds;  ///< by size; infinity where it was not measured, because it was far behind
};

/// From `low` to `high` bytes, both included, `target` is chosen.
struct Range {
  std::size_t low = 0, high = SIZE_MAX;
  std::string target;
  bool operator==(const Range&) const = default;
};

/// Ranges in which the chosen candidate takes, at every measured size, at most `tolerance` times as long as the best
/// one. The candidate that is best overall is chosen wherever this holds for it, and as few others as possible in
/// between, so that a disturbed measurement affects only its neighbours. `sizes` must ascend. Neighbouring ranges meet
/// where the curves cross, or else half way in the logarithm.
std::vector<Range> choose(std::span<const std::size_t> sizes, std::span<const Curve> curves, double tolerance);

/// Indices of the sizes where the candidate that is best overall is beaten by more than `tolerance`: either another one
/// is better there, or a measurement was disturbed. A single size is always doubtful.
std::vector<std::size_t> doubtful(std::span<const Curve> curves, std::size_t sizes, double tolerance);

/// Sizes half way, in the logarithm, between neighbours in `sizes` that lie in different ranges; measuring them shows
/// where one candidate takes over. None between sizes that differ by a factor of 2 or less.
std::vector<std::size_t> borders(std::span<const std::size_t> sizes, std::span<const Range> ranges);

/// Sizes from `first` on, each `factor` times the one before, or twice from `doubled_from` on, and finally `last`.
std::vector<std::size_t> grid(std::size_t first, std::size_t last, std::size_t factor,
                              std::size_t doubled_from = SIZE_MAX);

}  // namespace tutti::tune
