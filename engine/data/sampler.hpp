// Sampler: which samples a rank sees, in which step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::engine {

struct Range {
  std::size_t begin = 0, count = 0;
};

/// Part `rank` of [0, total) cut into `size` contiguous parts whose sizes differ by at most one.
constexpr Range share(std::size_t total, int rank, int size) noexcept {
  const auto r = static_cast<std::size_t>(rank), p = static_cast<std::size_t>(size);
  const std::size_t low = total / p, more = total % p;
  return {r * low + (r < more ? r : more), low + (r < more ? 1 : 0)};
}

/// Cuts each epoch's shuffled samples into global batches, and each of these over the ranks.
///
/// The order depends on seed and epoch alone, so any number of ranks sees the same global
/// batches. Every sample occurs exactly once in an epoch; the last batch may be smaller, and
/// a rank's part of it empty: weight by count / global_count().
class Sampler {
 public:
  struct Plan {
    std::size_t samples = 0;
    std::size_t batch = 1;  ///< of all ranks together
    int rank = 0, size = 1;
    std::uint64_t seed = 0;
  };

  /// Throws Error{invalid} when a rank would never see a sample.
  explicit Sampler(const Plan& plan);

  void start_epoch(std::size_t epoch);

  std::size_t steps() const noexcept { return (plan_.samples + plan_.batch - 1) / plan_.batch; }
  std::size_t global_count(std::size_t step) const noexcept;

  /// This rank's samples of `step`; valid until start_epoch().
  std::span<const std::uint32_t> local(std::size_t step) const noexcept;

 private:
  Plan plan_;
  std::vector<std::uint32_t> order_;
};

}  // namespace tutti::engine
