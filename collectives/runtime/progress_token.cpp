#include "collectives/runtime/progress_token.hpp"

#include <algorithm>

namespace tutti {

void ProgressToken::watch(WorkState& work, Deadline until) {
  std::unique_lock lock(mutex_);
  watchers_.fetch_add(1);
  // wait_until() with time_point::max() overflows with some clocks; wait at most an hour at a time.
  const Deadline latest = std::min(until, Clock::now() + std::chrono::hours(1));
  changed_.wait_until(lock, latest, [&] { return holder_.load() == 0 || work.settled(); });
  watchers_.fetch_sub(1);
}

void ProgressToken::wake_watchers() {
  { const std::lock_guard lock(mutex_); }  // a watcher between its check and its wait must not miss the notification
  changed_.notify_all();
}

}  // namespace tutti
