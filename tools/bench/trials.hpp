// Trials: the iterations of one case: barrier, stamp, action, stamp; in between, new inputs and a check of the outputs.
#pragma once

#include <vector>

#include "tools/bench/measure.hpp"
#include "tools/bench/pattern.hpp"

namespace tutti::bench {

/// All ranks make the same calls in the same order.
class Trials {
 public:
  struct Buffers {
    std::byte *in, *out;
  };
  /// `epoch` counts all iterations of a sweep, so that consecutive ones have different inputs.
  Trials(Implementation& implementation, Board& board, const Sweep& sweep, const Case& what, Buffers buffers,
         unsigned& epoch);

  const Case& what() const noexcept { return what_; }
  const Operands& operands() const noexcept { return operands_; }

  /// One iteration; `action` fills `out` as the case demands.
  template <class Action>
  Stamp once(const Action& action) {
    prepare();
    const Stamp stamp = apart(action);
    look();
    return stamp;
  }

  /// One iteration of an action that does not use the buffers.
  template <class Action>
  Stamp apart(const Action& action) {
    board_.barrier();
    Stamp stamp = now_stamp();
    action();
    stamp.left = now_stamp().left;
    return stamp;
  }

  /// Iterations of the implementation's call.
  std::vector<Stamp> calls(int count);

  /// The durations of iterations, each from the first entry to the last exit, in ascending order.
  std::vector<double> seconds(const std::vector<Stamp>& stamps);

  /// The number of iterations to time, if one takes `seconds`. The same on all ranks.
  int iterations(double seconds);

  /// The result for ascending times, with all elements found wrong so far.
  Result result(const std::vector<double>& seconds);

  void check_once();  ///< one iteration with a check of its result, if the timed ones do not touch the buffers

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
