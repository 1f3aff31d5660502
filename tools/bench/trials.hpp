// Trials: the iterations of one case. Each is: barrier, stamp, action, stamp. Between iterations the inputs are
// rewritten and the outputs checked.
#pragma once

#include <vector>

#include "tools/bench/measure.hpp"
#include "tools/bench/pattern.hpp"

namespace tutti::bench {

/// Runs the iterations of one case. All ranks make the same calls in the same order.
class Trials {
 public:
  struct Buffers {
    std::byte *in, *out;
  };
  /// `epoch` counts all iterations of a sweep, so that consecutive iterations have different inputs.
  Trials(Implementation& implementation, Board& board, const Sweep& sweep, const Case& what, Buffers buffers,
         unsigned& epoch);

  const Case& what() const noexcept { return what_; }
  const Operands& operands() const noexcept { return operands_; }

  /// Runs one iteration. `action` fills `out` as the case demands.
  template <class Action>
  Stamp once(const Action& action) {
    prepare();
    const Stamp stamp = apart(action);
    look();
    return stamp;
  }

  /// Runs one iteration of an action that does not use the buffers.
  template <class Action>
  Stamp apart(const Action& action) {
    board_.barrier();
    Stamp stamp = now_stamp();
    action();
    stamp.left = now_stamp().left;
    return stamp;
  }

  /// Runs `count` iterations of the implementation's call.
  std::vector<Stamp> calls(int count);

  /// Returns the durations of iterations in ascending order, each from the first entry to the last exit.
  std::vector<double> seconds(const std::vector<Stamp>& stamps);

  /// Returns the number of iterations to time, if one takes `seconds`. The result is the same on all ranks.
  int iterations(double seconds);

  /// Returns the result for times in ascending order, with all wrong elements so far.
  Result result(const std::vector<double>& seconds);

  void check_once();  ///< runs one iteration and checks its result, if the timed iterations do not touch the buffers

 private:
  void prepare();
  void look();
  Implementation& implementation_;
  Board& board_;
  const Sweep& sweep_;
  Case what_;
  Buffers buffers_;
  unsigned& epoch_;
  Pattern pattern_;
  Operands operands_;
  bool touch_;
  std::uint64_t wrong_ = 0;
};

}  // namespace tutti::bench
