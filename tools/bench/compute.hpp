// Compute: what a program does between the start of a call and the wait for it.
#pragma once

#include <cstdint>

namespace tutti::bench {

/// Work of a length that is told in advance: an amount, not a time, so that it takes longer where somebody else uses
/// this core. Or, `idle`, none: the thread sleeps for so long, as one does whose work an accelerator does.
class Compute {
 public:
  explicit Compute(bool idle);
  /// In nanoseconds on a core of one's own.
  void set_length(double nanoseconds) noexcept { nanoseconds_ = nanoseconds; }
  double length() const noexcept { return nanoseconds_; }
  void operator()() const;

 private:
  bool idle_;
  double nanoseconds_ = 0;
  double steps_per_nanosecond_ = 1;
};

}  // namespace tutti::bench
