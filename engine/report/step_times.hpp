// StepTimes: how the steps of an epoch spend their time on all ranks, and which rank the others waited for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/report/clocks.hpp"
#include "engine/report/phases.hpp"
#include "engine/report/trace.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// Seconds per phase; they add up to the elapsed time. For all ranks together: the mean over the ranks.
struct PhaseTimes {
  double compute = 0;
  double communication = 0;  ///< communication that is not overlapped, after the last rank has arrived
  double waiting = 0;        ///< waiting for ranks that arrive later at an exchange
  double load = 0;           ///< waiting for a batch
  double other = 0;

  double wall() const { return compute + communication + waiting + load + other; }
  bool operator==(const PhaseTimes&) const = default;
};

/// Seconds that each rank waited for each other rank.
class Waits {
 public:
  explicit Waits(std::size_t ranks = 0) : ranks_(ranks), seconds_(ranks * ranks) {}

  std::size_t ranks() const { return ranks_; }
  double of(std::size_t waiting, std::size_t late) const { return seconds_[late * ranks_ + waiting]; }
  void add(std::size_t waiting, std::size_t late, double seconds) { seconds_[late * ranks_ + waiting] += seconds; }

  double by(std::size_t waiting) const;     ///< total time that this rank waited
  double for_rank(std::size_t late) const;  ///< total time that others waited for this rank
  /// for_rank() of each rank divided by the number of ranks; the sum is the mean wait
  std::vector<double> mean_for_ranks() const;

 private:
  std::size_t ranks_;
  std::vector<double> seconds_;
};

/// When a rank arrived at an exchange, on a common clock, and how long it was blocked there.
struct Arrival {
  Nanoseconds came = 0, blocked = 0;
};

/// Adds one exchange with one arrival per rank. The others waited for the last rank to arrive: each from its own
/// arrival on, at most as long as it was blocked.
void book(std::span<const Arrival> arrivals, Waits& into);

struct EpochTimes {
  PhaseTimes mean;  ///< mean over the ranks
  Waits waits;
};

/// The phases of one rank and its arrivals at exchanges. One thread. gather() and synchronize() are collective. If
/// ranks call exchanged() different numbers of times, no waits are computed.
class StepTimes {
 public:
  /// Records a trace of the first `traced` steps.
  explicit StepTimes(PhaseClock clock = PhaseClock(), std::size_t traced = 0);
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  PhaseClock& clock() { return clock_; }
  /// The offset of this rank's clock to rank 0's, as last measured.
  const ClockOffset& offset() const { return offset_; }

  /// Measures the clock offset. Collective; blocks.
  void synchronize(Communicator& world);
  /// Starts an epoch, in phase other.
  void start();
  /// begin_step() starts a step, in phase load; end_step() ends it and enters phase other.
  void begin_step();
  void end_step();
  /// Records an exchange that has just ended. It began `whole` seconds ago, and this rank was blocked in it for the
  /// last `blocked` seconds. Enters phase compute.
  void exchanged(double blocked, double whole = 0);
  /// Ends the epoch; later time is not counted.
  void stop() { clock_.enter(Phase::other); }
  /// The times of all ranks from start() to stop(); the same on all ranks. Collective; blocks.
  EpochTimes gather(Communicator& world);

  const Trace& trace() const { return trace_; }

 private:
  void keep(Phase phase, Nanoseconds begin, Nanoseconds end);
  Waits book_all(Communicator& world);

  PhaseClock clock_;
  ClockOffset offset_;
  std::vector<Arrival> arrivals_;
  Trace trace_;
  Nanoseconds step_began_ = 0;
  bool exchanged_ = false;  ///< whether this step has exchanged
};

}  // namespace tutti::engine
