// StepTimes: where the time of an epoch's steps goes on all ranks, and which rank the others waited for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "engine/report/clocks.hpp"
#include "engine/report/phases.hpp"
#include "engine/report/trace.hpp"

namespace tutti::engine {

/// Seconds, which add up to the time that passed. Of all ranks: their means.
struct PhaseTimes {
  double compute = 0;
  double communication = 0;  ///< that nothing hid, after the last rank had come
  double waiting = 0;        ///< for ranks that came later to an exchange
  double load = 0;           ///< waiting for a batch
  double other = 0;

  double wall() const { return compute + communication + waiting + load + other; }
  bool operator==(const PhaseTimes&) const = default;
};

/// How long ranks waited for one another.
class Waits {
 public:
  explicit Waits(std::size_t ranks = 0) : ranks_(ranks), seconds_(ranks * ranks) {}

  std::size_t ranks() const { return ranks_; }
  double of(std::size_t waiting, std::size_t late) const { return seconds_[late * ranks_ + waiting]; }
  void add(std::size_t waiting, std::size_t late, double seconds) { seconds_[late * ranks_ + waiting] += seconds; }

  double by(std::size_t waiting) const;        ///< all that this rank waited
  double for_rank(std::size_t late) const;     ///< all that the others waited for this one
  std::vector<double> mean_for_ranks() const;  ///< for_rank() of each, divided by the ranks: adds up to the mean wait

 private:
  std::size_t ranks_;
  std::vector<double> seconds_;
};

/// When a rank came to an exchange, on one clock, and how long it was blocked there.
struct Arrival {
  Nanoseconds came = 0, blocked = 0;
};

/// Adds one exchange, of one arrival for each rank. The last one to come is whom the others waited for: each as long as
/// it was there before, but no longer than it was blocked.
void book(std::span<const Arrival> arrivals, Waits& into);

struct EpochTimes {
  PhaseTimes mean;  ///< over the ranks
  Waits waits;
};

/// One rank's clock of phases and its arrivals at exchanges. One thread; gather() and synchronize() are collective, and
/// all ranks call exchanged() equally often, or nobody is waited for.
class StepTimes {
 public:
  /// Of the first `traced` steps a trace is kept.
  explicit StepTimes(PhaseClock clock = PhaseClock(), std::size_t traced = 0);
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  PhaseClock& clock() { return clock_; }
  /// Of this rank's clock to rank 0's, as it was found last.
  const ClockOffset& offset() const { return offset_; }

  /// Compares the clocks; blocks.
  void synchronize(Communicator& world);
  /// An epoch begins, in the phase other.
  void start();
  /// A step begins, in the phase load; it ends, and the phase is other.
  void begin_step();
  void end_step();
  /// An exchange has just ended, which began `whole` seconds ago, and in the last `blocked` of them this rank did
  /// nothing else; computing goes on.
  void exchanged(double blocked, double whole = 0);
  /// The epoch ends here: no time after this is counted.
  void stop() { clock_.enter(Phase::other); }
  /// What all ranks did from start() to stop(); the same on all ranks. Blocks.
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
  bool exchanged_ = false;  ///< in this step
};

}  // namespace tutti::engine
