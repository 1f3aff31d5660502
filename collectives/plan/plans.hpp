// Plans: the schedules that a communicator's calls play, kept for the next calls of the same shape.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/plan/algorithm.hpp"

namespace tutti {

/// Making a schedule takes 5 to 150 ns for any number of ranks, and finding it here 5: so only the latest few are kept,
/// less than 32 KiB for a communicator and 6 MiB for all of the process, and more only while more are played at the
/// same time. Where all is taken, a call's schedule is made, and freed at its end. Token held.
class Plans {
 public:
  static constexpr std::size_t most_kept = 20;
  static constexpr std::size_t most_kept_in_process = 4096;

  Plans() = default;
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  ~Plans();

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
    int root, way;
    int users;
    std::uint64_t taken;  // when it was taken last
    std::unique_ptr<Schedule> plan;
  };
  Kept& place_for_one();
  bool keeps_too_many() const noexcept;

  static std::atomic<std::size_t> in_process_;  // schedules of all communicators

  std::vector<Kept> kept_;
  std::uint64_t clock_ = 0, made_ = 0;
};

}  // namespace tutti
