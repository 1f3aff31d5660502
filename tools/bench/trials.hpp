// Trials: the iterations of one case. Barrier, stamp, action, stamp; in between new inputs and a look at every output.
#pragma once

#include <vector>

#include "tools/bench/measure.hpp"
#include "tools/bench/pattern.hpp"

namespace tutti::bench {

/// All ranks call the same, in the same order.
class Trials {
 public:
  struct Buffers {
    std::byte *in, *out;
  };
  /// `epoch` counts all iterations of a sweep, so that no two in a row have the same inputs.
  Trials(Implementation& implementation, Board& board, const Sweep& sweep, const Case& what, Buffers buffers,
         unsigned& epoch);

  const Case& what() const noexcept { return what_; }
  const Operands& operands() const noexcept { return operands_; }

  /// One iteration; `action` fills `out` as the case says.
  template <class Action>
  Stamp once(const Action& action) {
    prepare();
    const Stamp stamp = apart(action);
    look();
    return stamp;
  }

  /// The same for what has nothing to do with the buffers.
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

  /// Each from the first entry to the last exit, ascending.
  std::vector<double> seconds(const std::vector<Stamp>& stamps);

  /// How many iterations to time, of so many seconds.
  int iterations(double seconds);

  /// Of ascending times; everything that was found wrong until now.
  Result result(const std::vector<double>& seconds);

  void check_once();  ///< one iteration whose result is looked at, where those that are timed leave the buffers alone

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
