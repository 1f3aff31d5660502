// Agreement: all ranks of a run learn what any of them was asked to do, such as to end.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "tutti/clock.hpp"
#include "tutti/communicator.hpp"
#include "tutti/work.hpp"

namespace tutti::engine {

/// A request to a running training, for example by a signal. A later value outweighs the earlier ones.
enum class Wish {
  nothing,
  regroup,       ///< end this step's group of ranks, to take in processes that wait to join (elastic.max)
  checkpoint,    ///< write a checkpoint after this step, and continue
  time_is_over,  ///< write a checkpoint after this step, and end, as max_time has passed
  end,           ///< write a checkpoint after this step, and end
};

/// After each step all ranks call meet(). Their wishes are combined in an allreduce that starts in one call and
/// completes in a later one. If the ranks exchange in each step, this happens about five times per second, and no rank
/// waits longer than for that exchange. If they do not exchange, it happens every five seconds, so no rank gets more
/// than that ahead of the others. One thread.
class Agreement {
 public:
  explicit Agreement(Communicator world) : world_(std::move(world)) {}

  /// All ranks call it after each step. `exchanged`: true if the ranks exchanged in this step; equal on all ranks.
  /// If an allreduce completes in this call, returns the largest wish of all ranks in it, else Wish::nothing; the same
  /// on all ranks.
  Wish meet(Wish mine, bool exchanged);
  /// True if the last meet() completed an allreduce; the same on all ranks. With one rank: true every 0.2 s.
  bool heard() const noexcept { return heard_; }
  /// Waits for the allreduce that was started, if any. All ranks call it at the end of a run that did not fail.
  void end();

 private:
  void start();

  Communicator world_;
  Wish mine_ = Wish::nothing;       ///< not sent yet
  std::array<double, 2> shared_{};  ///< buffer of pending_: the wish, and the seconds per call of meet()
  Work pending_;
  bool under_way_ = false, heard_ = false;
  std::size_t meetings_ = 0;  ///< calls of meet() since pending_ was started
  /// Calls of meet() from one allreduce to the next, if the ranks exchanged in the step, and if they did not.
  std::size_t soon_ = 1, late_ = 1;
  Deadline began_ = Clock::now();  ///< when pending_ was started
};

}  // namespace tutti::engine
