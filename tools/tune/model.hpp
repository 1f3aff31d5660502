// Model: from measured times of several candidates to the few ranges of sizes in which one of them is best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::tune {

/// How long a candidate takes, at each of the sizes that were measured. Between two of them its time follows a straight
/// line in the logarithms of both, which is exact for any power law and close for latency + bytes / bandwidth.
struct Curve {
  std::string target;           ///< "ring", "gloo/bcube"
  std::vector<double> seconds;  ///< by size; infinity where it was not measured, because it was far behind
};

/// From `low` to `high` bytes, both included, `target` it is.
struct Range {
  std::size_t low = 0, high = SIZE_MAX;
  std::string target;
  bool operator==(const Range&) const = default;
};

/// Ranges in which the chosen candidate takes, at every measured size, at most `tolerance` times as long as the best
/// one there: the one that does best on the whole wherever that is so of it, and between such ranges the fewest others,
/// so that a measurement that was disturbed reaches no further than to its neighbours. `sizes` ascend. Two neighbours
/// meet where their lines cross, else half way in the logarithm.
std::vector<Range> choose(std::span<const std::size_t> sizes, std::span<const Curve> curves, double tolerance);

/// The places among the sizes where the candidate that does best on the whole is beaten by more than `tolerance`:
/// either a range of another one, or a measurement that was disturbed.
std::vector<std::size_t> doubtful(std::span<const Curve> curves, std::size_t sizes, double tolerance);

/// Sizes half way, in the logarithm, between two neighbours of `sizes` of which `ranges` says another candidate each:
/// what is to be measured too to know where one takes over. None between sizes that are a factor of 2 apart or less.
std::vector<std::size_t> borders(std::span<const std::size_t> sizes, std::span<const Range> ranges);

/// Sizes from `first` on, each `factor` times the one before, from `doubled_from` on twice, and `last`.
std::vector<std::size_t> grid(std::size_t first, std::size_t last, std::size_t factor,
                              std::size_t doubled_from = SIZE_MAX);

}  // namespace tutti::tune
