// Model: computes, from measured times of several candidates, a few ranges of sizes and the best candidate of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::tune {

/// The times of a candidate at the measured sizes. Between two sizes the logarithm of the time is interpolated linearly
/// over the logarithm of the size. This is exact for a power law, and close for latency + bytes / bandwidth.
struct Curve {
  std::string target;           ///< "ring", "gloo/bcube"
  std::vector<double> seconds;  ///< by size; infinity if not measured because the candidate was far behind
};

/// `target` is chosen from `low` to `high` bytes, both included.
struct Range {
  std::size_t low = 0, high = SIZE_MAX;
  std::string target;
  bool operator==(const Range&) const = default;
};

/// Returns ranges in which the chosen candidate takes, at every measured size, at most `tolerance` times as long as the
/// best one. The candidate that is best overall is chosen wherever this holds for it. Between its ranges as few others
/// as possible are chosen, so that a disturbed measurement affects only its neighbours. `sizes` must ascend.
/// Neighbouring ranges meet where the curves cross, or else half way in the logarithm.
std::vector<Range> choose(std::span<const std::size_t> sizes, std::span<const Curve> curves, double tolerance);

/// Returns the indices of sizes at which another candidate beats the one that is best overall by more than `tolerance`:
/// either it is better there, or a measurement was disturbed. A single size is always doubtful.
std::vector<std::size_t> doubtful(std::span<const Curve> curves, std::size_t sizes, double tolerance);

/// Returns sizes half way, in the logarithm, between neighbours in `sizes` that lie in different ranges. Measuring them
/// shows where one candidate takes over. Returns none between sizes that differ by a factor of 2 or less.
std::vector<std::size_t> borders(std::span<const std::size_t> sizes, std::span<const Range> ranges);

/// Returns sizes from `first` on, each `factor` times the previous, or twice from `doubled_from` on, and finally
/// `last`.
std::vector<std::size_t> grid(std::size_t first, std::size_t last, std::size_t factor,
                              std::size_t doubled_from = SIZE_MAX);

}  // namespace tutti::tune
