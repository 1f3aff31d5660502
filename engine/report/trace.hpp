// Trace: a timeline of the first steps of a run on all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/report/clocks.hpp"
#include "engine/report/phases.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// The intervals of one rank. For one thread.
class Trace {
 public:
  enum class Kind : std::uint8_t { step, load, forward_backward, exposed, update, other, exchange };

  /// Records `steps` steps; 0: nothing.
  explicit Trace(std::size_t steps) : wanted_(steps) {}

  bool recording() const { return steps_ < wanted_; }
  bool empty() const { return intervals_.empty(); }
  /// Adds an interval of the current step. Does nothing after the wanted number of steps.
  void add(Kind kind, Nanoseconds begin, Nanoseconds end);
  /// Ends the current step.
  void end_step(Nanoseconds begin, Nanoseconds end);

  /// Returns on rank 0 the intervals of all ranks in the Trace Event Format (chrome://tracing, Perfetto), with one
  /// process per rank and the rows steps, phases and exchange. Times are of rank 0's clock, in microseconds since the
  /// first interval began. Returns an empty text on other ranks. Collective; blocks.
  std::string gather(Communicator& world, const ClockOffset& offset) const;

 private:
  struct Interval {
    Kind kind;
    std::size_t step;
    Nanoseconds begin, end;
  };

  std::size_t wanted_, steps_ = 0;
  std::vector<Interval> intervals_;
};

}  // namespace tutti::engine
