// Crowding: detects, while a rank waits, if other programs use its cores.
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
  /// 0 if the file cannot be read.
  int count() const noexcept;

 private:
  Descriptor file_;
};

/// Detects whether other programs (the neighbours) use this rank's cores. If they do, spinning and yielding are slow:
/// a spinning thread uses up the time that the scheduler grants it, and a yield gives the core away for a whole time
/// slice. Each rank decides alone, by two signs. The first: repeatedly, more threads want a core than this machine has
/// cores, and more than the job has ranks here. The second: a yield or a spin took as long as a time slice, although
/// there is a core for each rank. Without further signs the rank forgets the neighbours. For the holder of the progress
/// token.
class Crowding {
 public:
  using Count = std::function<int()>;

  /// `cores`: number of cores of this machine. `ranks`: number of ranks of this job on this host. `room`: number of
  /// cores that these ranks may use. `runnable` returns the number of threads that run or wait for a core.
  Crowding(int cores, int room, int ranks, Count runnable)
      : cores_(cores), room_(room), ranks_(ranks), runnable_(std::move(runnable)) {}

  /// True while the rank assumes that it has neighbours.
  bool seen() const noexcept { return seen_; }

  /// Counts the runnable threads, at most once in `look_interval`. Waiting threads call it at any rate. If already the
  /// first count is too high, seen() becomes true at once; later counts soon correct a mistake. This does not hold if
  /// ranks outnumber the cores, because the first count then includes ranks that are just starting.
  void look(Clock::time_point now);

  /// Reports a yield or a spin that ended at `now` and took `time`. Without neighbours `time` is close to zero.
  void spent(Clock::duration time, Clock::time_point now);

  static constexpr auto look_interval = std::chrono::microseconds(250);
  static constexpr auto time_slice = std::chrono::microseconds(700);      // the shortest that Linux grants under load
  static constexpr auto shortest_memory = std::chrono::milliseconds(10);  // time for which a lost slice is remembered
  static constexpr auto longest_memory = std::chrono::milliseconds(640);
  // Several counts have to be too high, so that a daemon that runs for a moment is not taken for a neighbour.
  static constexpr int learns_by = 4;   // seen() becomes true if so many of the last 8 counts were too high
  static constexpr int forgets_by = 4;  // seen() may become false if at most so many of the last 32 were too high

 private:
  const int cores_, room_, ranks_;
  const Count runnable_;
  bool seen_ = false, looked_ = false;
  std::uint32_t looks_ = 0;  // a bit for each of the last 32 counts, the newest in bit 0; 1: the count was too high
  Clock::time_point next_look_{}, until_{};
  Clock::duration memory_ = shortest_memory;
};

}  // namespace tutti
