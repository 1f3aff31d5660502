#include "engine/report/phases.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace tutti::engine {

Nanoseconds steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void PhaseClock::start(Phase phase) {
  spent_ = {};
  phase_ = phase;
  began_ = now_();
}

double PhaseClock::total() const {
  return 1e-9 * static_cast<double>(std::accumulate(spent_.begin(), spent_.end(), now_() - began_));
}

Phase PhaseClock::enter(Phase phase, Nanoseconds ago) {
  const Nanoseconds end = std::max(began_, now_() - std::max<Nanoseconds>(ago, 0));
  spent_[static_cast<std::size_t>(phase_)] += end - began_;
  if (listener_) listener_(phase_, began_, end);
  began_ = end;
  return std::exchange(phase_, phase);
}

}  // namespace tutti::engine
