#include "collectives/runtime/crowding.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>
#include <utility>

namespace tutti {

RunnableThreads::RunnableThreads() : file_(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)) {}

// "0.52 0.58 0.59 3/467 12345": three averages, runnable/all threads, the newest process.
int RunnableThreads::count() const noexcept {
  char text[128];
  const ssize_t bytes = file_ ? ::pread(file_.fd(), text, sizeof text, 0) : 0;
  if (bytes <= 0) return 0;
  const std::string_view line(text, static_cast<std::size_t>(bytes));
  const std::size_t slash = line.find('/');
  const std::size_t blank = line.rfind(' ', slash);
  int count = 0;
  if (slash != line.npos && blank != line.npos) std::from_chars(text + blank + 1, text + slash, count);
  return count;
}

void Crowding::look(Clock::time_point now) {
  if (now < next_look_) return;
  next_look_ = now + look_interval;
  const bool crowded = runnable_() > std::max(cores_, ranks_);
  looks_ = looks_ << 1 | (crowded ? 1u : 0u);
  if (!std::exchange(looked_, true) && crowded && ranks_ <= cores_) looks_ = (1u << learns_by) - 1;
  if (std::popcount(looks_ & 0xffu) >= learns_by)
    seen_ = true;
  else if (now >= until_ && std::popcount(looks_) <= forgets_by)
    seen_ = false;
}

// The counts of runnable threads show no neighbours (other programs) if the ranks may use only some of the cores, or if
// a CPU quota stops them. Then the first spin after the rank has forgotten the neighbours costs a time slice or the
// rest of the quota's period. If that happens soon, the loss is remembered twice as long, up to longest_memory.
//
// If ranks outnumber their cores, a lost time slice went to another rank and is no sign of other programs.
void Crowding::spent(Clock::duration time, Clock::time_point now) {
  if (time < time_slice || ranks_ > room_) return;
  if (!seen_ && until_ != Clock::time_point{}) {
    const bool soon = now - time - until_ < std::max<Clock::duration>(memory_, 4 * time);
    memory_ = soon ? std::min<Clock::duration>(2 * memory_, longest_memory) : shortest_memory;
  }
  seen_ = true;
  until_ = now + memory_;
}

}  // namespace tutti
