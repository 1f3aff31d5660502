// Trace: what all ranks do in the first steps of a run, as a picture's data.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "engine/report/clocks.hpp"
#include "engine/report/phases.hpp"

namespace tutti::engine {

/// Intervals of one rank. One thread.
class Trace {
 public:
  enum class Kind : std::uint8_t { step, load, forward_backward, exposed, update, other, exchange };

  /// Of so many steps; 0: nothing is kept.
  explicit Trace(std::size_t steps) : wanted_(steps) {}

  bool recording() const { return steps_ < wanted_; }
  bool empty() const { return intervals_.empty(); }
  /// Of a step that is under way; nothing, once there are enough steps.
  void add(Kind kind, Nanoseconds begin, Nanoseconds end);
  /// The step has ended.
  void end_step(Nanoseconds begin, Nanoseconds end);

  /// On rank 0, the intervals of all ranks in the Trace Event Format (chrome://tracing, Perfetto): a process for each
  /// rank with the rows steps, phases and exchange, on rank 0's clock, in microseconds from the first one on. Empty
  /// elsewhere. Collective; blocks.
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
