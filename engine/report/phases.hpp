// Phases: divides a rank's time into phases.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace tutti::engine {

using Nanoseconds = std::int64_t;

/// Returns the time of std::chrono::steady_clock.
Nanoseconds steady_now();

enum class Phase : std::uint8_t {
  compute,   ///< forward, backward, update
  exchange,  ///< blocked in an exchange: communication that is not overlapped, or waiting for other ranks
  load,      ///< waiting for a batch
  other,     ///< hooks, checkpoints, the report
};
inline constexpr std::size_t phase_count = 4;

/// Divides time into consecutive intervals of one phase each. Only skip() leaves a gap, so the times of all phases add
/// up exactly to the elapsed time. For one thread.
class PhaseClock {
 public:
  using Now = std::function<Nanoseconds()>;
  /// Called at the end of each interval, empty ones included.
  using Listener = std::function<void(Phase, Nanoseconds begin, Nanoseconds end)>;

  explicit PhaseClock(Now now = steady_now) : now_(std::move(now)), began_(now_()) {}

  /// Resets all times and starts an interval of `phase` now.
  void start(Phase phase);

  /// Ends the current interval and starts one of `phase`. The boundary is `ago` before now, but not before the start of
  /// the current interval. Returns the previous phase.
  Phase enter(Phase phase, Nanoseconds ago = 0);

  /// Excludes the current interval's time so far from all phases.
  void skip() { began_ = now_(); }

  /// Seconds in all phases, including the current interval.
  double total() const;
  /// Time in `phase`, without the current interval.
  Nanoseconds spent(Phase phase) const { return spent_[static_cast<std::size_t>(phase)]; }
  /// Start of the current interval.
  Nanoseconds began() const { return began_; }
  Nanoseconds now() const { return now_(); }

  void listen(Listener listener) { listener_ = std::move(listener); }

 private:
  Now now_;
  Listener listener_;
  Phase phase_ = Phase::other;
  Nanoseconds began_;
  std::array<Nanoseconds, phase_count> spent_{};
};

}  // namespace tutti::engine
