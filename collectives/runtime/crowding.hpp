// Crowding: whether a rank's cores are shared with other programs, learned while it waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti {

/// The kernel's count of threads that run or wait for a core, on all cores of this machine: the fourth field of
/// /proc/loadavg.
class RunnableThreads {
 public:
  RunnableThreads();
  /// 0 if the kernel does not tell.
  int count() const noexcept;

 private:
  Descriptor file_;
};

/// What one rank knows about its neighbours. A waiting thread that spins or yields beside them hinders everybody: it
/// uses up the time that the scheduler grants it, and a yield gives the core away for a whole time slice. Each rank
/// learns for itself, from two signs: again and again more threads want a core than there are cores and ranks, or a
/// yield or a spin took as long as a time slice, although there is a core for each rank. It forgets when the signs stay
/// away. Token held.
class Crowding {
 public:
  using Count = std::function<int()>;

  /// `cores`: all of this machine. `ranks`: those of this job on this host, which may use `room` of the cores.
  /// `runnable` returns the threads that want a core.
  Crowding(int cores, int room, int ranks, Count runnable)
      : cores_(cores), room_(room), ranks_(ranks), runnable_(std::move(runnable)) {}

  bool seen() const noexcept { return seen_; }

  /// Called by a waiting thread as often as it likes; counts the runnable threads once in `look_interval` at most.
  /// The first look counts for as many as it takes to learn, as what it gets wrong is soon put right; not where ranks
  /// outnumber the cores, because it sees them start.
  void look(Clock::time_point now);

  /// A yield or a spin that takes no time to speak of where nobody else wants the core ended at `now` after `time`.
  void spent(Clock::duration time, Clock::time_point now);

  static constexpr auto look_interval = std::chrono::microseconds(250);
  static constexpr auto time_slice = std::chrono::microseconds(700);      // the shortest that Linux grants under load
  static constexpr auto shortest_memory = std::chrono::milliseconds(10);  // of a lost time slice
  static constexpr auto longest_memory = std::chrono::milliseconds(640);
  // A daemon that wakes up for a moment is no neighbour.
  static constexpr int learns_by = 4;   // looks of the last 8 that saw too many threads
  static constexpr int forgets_by = 4;  // of the last 32

 private:
  const int cores_, room_, ranks_;
  const Count runnable_;
  bool seen_ = false, looked_ = false;
  std::uint32_t looks_ = 0;  // the last 32, the newest in bit 0: whether too many threads wanted a core
  Clock::time_point next_look_{}, until_{};
  Clock::duration memory_ = shortest_memory;
};

}  // namespace tutti
