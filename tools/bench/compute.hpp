// Compute: the computation that runs between the start of a call and the wait for it.
#pragma once

#include <cstdint>

namespace tutti::bench {

/// A fixed amount of arithmetic, given as the time that it takes on an idle core. It takes longer while other threads
/// use the core. With `idle` the thread sleeps instead, like a thread that waits for an accelerator.
class Compute {
 public:
  explicit Compute(bool idle);
  /// Sets the time that the computation takes on an otherwise idle core.
  void set_length(double nanoseconds) noexcept { nanoseconds_ = nanoseconds; }
  double length() const noexcept { return nanoseconds_; }
  void operator()() const;

 private:
  bool idle_;
  double nanoseconds_ = 0;
  double steps_per_nanosecond_ = 1;
};

}  // namespace tutti::bench
