// Compute: the computation between the start of a call and the wait for it.
#pragma once

#include <cstdint>

namespace tutti::bench {

/// A fixed amount of arithmetic, set as the time that it takes on an idle core; it takes longer while others use the
/// core. With `idle` the thread sleeps instead, as one does that waits for an accelerator.
class Compute {
 public:
  explicit Compute(bool idle);
  /// In nanoseconds on an otherwise idle core.
  void set_length(double nanoseconds) noexcept { nanoseconds_ = nanoseconds; }
  double length() const noexcept { return nanoseconds_; }
  void operator()() const;

 private:
  bool idle_;
  double nanoseconds_ = 0;
  double steps_per_nanosecond_ = 1;
};

}  // namespace tutti::bench
