// Plans: a cache of a communicator's schedules, for later calls of the same shape.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/plan/algorithm.hpp"

namespace tutti {

/// Making a schedule takes 5 to 150 ns for any number of ranks; finding it here takes 5 ns. Therefore only the most
/// recently used schedules are kept: less than 32 KiB for a communicator, and 6 MiB for the process. Schedules in use
/// may exceed these limits. A schedule above the limits is freed when it is given back. For the holder of the progress
/// token.
class Plans {
 public:
  static constexpr std::size_t most_kept = 20;
  static constexpr std::size_t most_kept_in_process = 4096;

  Plans() = default;
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  ~Plans();

  /// Returns the schedule of this shape. It stays unchanged until give_back() has been called once for each take(). The
  /// rank, the size and the hosts must be the same in all calls. The schedule of a v-form is made anew each time.
  const Schedule& take(const Algorithm& algorithm, const Shape& shape);
  void give_back(const Schedule& plan) noexcept;

  std::size_t bytes() const noexcept;                    ///< memory of all schedules in this cache
  std::uint64_t made() const noexcept { return made_; }  ///< number of schedules made because none was found

 private:
  struct Kept {
    const Algorithm* algorithm;  // null: take() does not find this entry
    std::size_t count;
    int root, way;
    int users;
    std::uint64_t taken;  // clock_ at the last take()
    std::unique_ptr<Schedule> plan;
  };
  Kept& place_for_one();
  bool keeps_too_many() const noexcept;

  static std::atomic<std::size_t> in_process_;  // number of entries in all communicators' caches

  std::vector<Kept> kept_;
  std::uint64_t clock_ = 0, made_ = 0;
};

}  // namespace tutti
