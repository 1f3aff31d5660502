// StepTimes: how the steps of an epoch spend their time on all ranks, and which rank the others waited for.
#pragma once

#include <cstddef>
#include <map>
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

/// The largest number of ranks, and of pairs of ranks, that a report names.
inline constexpr std::size_t most_named = 10;

/// A rank, and the seconds that all other ranks together waited for it, divided by the number of ranks.
struct WaitedFor {
  int rank = 0;
  double seconds = 0;
  bool operator==(const WaitedFor&) const = default;
};

/// Returns the most_named elements with the most seconds, in the order of ranks.
std::vector<WaitedFor> most_waited_for(std::vector<WaitedFor> all);

/// The seconds that one rank waited for another.
struct PairWait {
  int late = 0, waiting = 0;
  double seconds = 0;
  bool operator==(const PairWait&) const = default;
};

/// Returns the most_named elements with the most seconds, largest first, ties in the order of ranks.
std::vector<PairWait> worst(std::vector<PairWait> waits);

/// Merges the worst() of all ranks along a Tree. Rank 0 gets the result, other ranks an empty list. A rank sends one
/// message of 160 bytes, and receives at most one in each round. Collective; blocks.
std::vector<PairWait> worst_of_all(Communicator& world, std::vector<PairWait> mine);

/// The time when a rank arrived at an exchange, on its clock or a common one, and how long it was blocked in it.
struct Arrival {
  Nanoseconds came = 0, blocked = 0;
};

/// The seconds that one rank waited for each late rank, by the late rank's number.
using WaitRow = std::map<int, double>;

/// Computes the waits of all ranks in their common exchanges; `mine` has this rank's arrivals. In each exchange the
/// others waited for the last rank to arrive: from their own arrival on, and at most as long as they were blocked. For
/// each 1,024 exchanges, two allreduces of together 12 bytes per exchange find the last rank, whatever the number of
/// ranks is. A rank that was never last has no entry. Each rank has an entry for every rank that was last, so all rows
/// have the same keys. Collective; blocks.
WaitRow book(Communicator& world, std::span<const Arrival> mine);

struct EpochTimes {
  PhaseTimes mean;  ///< mean over the ranks
  /// The most_named ranks that others waited for most, in the order of ranks. If there are no more ranks than that, the
  /// list has all of them.
  std::vector<WaitedFor> waited_for;
  std::vector<PairWait> pairs;  ///< worst_of_all()
};

/// The phases of one rank and its arrivals at exchanges. For one thread. gather() and synchronize() are collective. If
/// the ranks call exchanged() different numbers of times, gather() computes no waits.
class StepTimes {
 public:
  /// Records a trace of the first `traced` steps.
  explicit StepTimes(PhaseClock clock = PhaseClock(), std::size_t traced = 0);
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  PhaseClock& clock() { return clock_; }
  /// The offset of this rank's clock to rank 0's, as last measured.
  const ClockOffset& offset() const { return offset_; }

  /// Measures the clock offset: at the first call, and at later calls only if ranks are on several hosts, whose clocks
  /// drift apart. Collective; blocks.
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
  /// Gathers the times of all ranks from start() to stop(). All ranks get the same result, but only rank 0 gets pairs.
  /// A rank sends epoch_times_bytes(). Collective; blocks.
  EpochTimes gather(Communicator& world);

  const Trace& trace() const { return trace_; }

 private:
  void keep(Phase phase, Nanoseconds begin, Nanoseconds end);
  WaitRow book_all(Communicator& world) const;

  PhaseClock clock_;
  ClockOffset offset_;
  bool is_compared_ = false;  ///< true: `offset_` has been measured
  bool drifts_ = false;       ///< true: ranks are on several hosts, so their clocks drift apart
  std::vector<Arrival> arrivals_;
  Trace trace_;
  Nanoseconds step_began_ = 0;
  bool exchanged_ = false;  ///< true: this step has exchanged
};

}  // namespace tutti::engine
