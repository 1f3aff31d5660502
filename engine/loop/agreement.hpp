// Agreement: the ranks of a run find out what one of them was asked for.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "tutti/clock.hpp"
#include "tutti/communicator.hpp"
#include "tutti/work.hpp"

namespace tutti::engine {

/// A request to a run that goes on, such as by a signal. Each one outweighs those before it.
enum class Wish {
  nothing,
  checkpoint,    ///< write a checkpoint after this step, and go on
  time_is_over,  ///< write a checkpoint after this step, and end, as max_time has passed
  end,           ///< write a checkpoint after this step, and end
};

/// The ranks meet after each step. What each of them is asked for travels in an allreduce that starts at one meeting
/// and is waited for at a later one. Where ranks exchanged in a step anyway, that is about five times per second, and
/// makes no rank wait longer than the exchange does. In the steps between exchanges it is every five seconds, which is
/// how far a rank may be ahead of the others. One thread.
class Agreement {
 public:
  explicit Agreement(Communicator world) : world_(std::move(world)) {}

  /// Called by all ranks after each step. `exchanged`: the ranks exchanged in it; the same on all of them. Returns the
  /// largest wish of a rank that has become known, once, and the same on all ranks.
  Wish meet(Wish mine, bool exchanged);
  /// True if ranks heard of each other at the last meeting; the same on all ranks.
  bool heard() const noexcept { return heard_; }
  /// Waits for what is on its way. Called by all ranks at the end of a run that did not fail.
  void end();

 private:
  void start();

  Communicator world_;
  Wish mine_ = Wish::nothing;       ///< not sent yet
  std::array<double, 2> shared_{};  ///< of pending_: the wish, and the seconds from one meeting to the next
  Work pending_;
  bool under_way_ = false, heard_ = false;
  std::size_t meetings_ = 0;  ///< since pending_ was started
  /// Meetings from one allreduce to the next, if the ranks exchanged at the last one, and otherwise.
  std::size_t soon_ = 1, late_ = 1;
  Deadline began_ = Clock::now();  ///< when pending_ was started
};

}  // namespace tutti::engine
