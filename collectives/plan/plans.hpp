// Plans: the schedules that a communicator's calls play, kept for the next calls of the same shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/plan/algorithm.hpp"

namespace tutti {

/// Making a schedule takes 5 to 150 ns for any number of ranks, and finding it here 5: so only the latest few are kept,
/// less than 32 KiB, and more only while more are played at the same time. Token held.
class Plans {
 public:
  static constexpr std::size_t most_kept = 16;

  /// The schedule of this shape, which stays as it is until it is given back as often as it was taken. The rank, the
  /// size and the hosts must be the same in all shapes; schedules of v-forms are made anew each time.
  const Schedule& take(const Algorithm& algorithm, const Shape& shape);
  void give_back(const Schedule& plan) noexcept;

  std::size_t bytes() const noexcept;                    ///< of all schedules here
  std::uint64_t made() const noexcept { return made_; }  ///< how many were not found

 private:
  struct Kept {
    const Algorithm* algorithm;  // null: not to be found
    std::size_t count;
    int root;
    int users;
    std::uint64_t taken;  // when it was taken last
    std::unique_ptr<Schedule> plan;
  };
  Kept& place_for_one();

  std::vector<Kept> kept_;
  std::uint64_t clock_ = 0, made_ = 0;
};

}  // namespace tutti
