// Phases: one clock cut into what a rank does with its time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace tutti::engine {

using Nanoseconds = std::int64_t;

/// Of std::chrono::steady_clock.
Nanoseconds steady_now();

enum class Phase : std::uint8_t {
  compute,   ///< forward, backward, update
  exchange,  ///< blocked in an exchange with other ranks: communication that nothing hides, and waiting for ranks
  load,      ///< waiting for a batch
  other,     ///< hooks, checkpoints, the report
};
inline constexpr std::size_t phase_count = 4;

/// Intervals that follow one another, each of one phase, without gaps but for skip(): what the phases took adds up,
/// exactly, to what has passed. One thread.
class PhaseClock {
 public:
  using Now = std::function<Nanoseconds()>;
  /// Told of each interval when it ends; of an empty one, too.
  using Listener = std::function<void(Phase, Nanoseconds begin, Nanoseconds end)>;

  explicit PhaseClock(Now now = steady_now) : now_(std::move(now)), began_(now_()) {}

  /// Begins anew with this phase, from now on; nothing has been spent.
  void start(Phase phase);

  /// The phase that is under way ends and this one begins: now, or `ago` before now, but not before the former began.
  /// Returns the former.
  Phase enter(Phase phase, Nanoseconds ago = 0);

  /// What has passed of the present interval belongs to no phase.
  void skip() { began_ = now_(); }

  /// Seconds in all phases so far.
  double total() const;
  /// In intervals that have ended.
  Nanoseconds spent(Phase phase) const { return spent_[static_cast<std::size_t>(phase)]; }
  /// When what is under way began.
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
