// Failures: how a rank detects the deaths of others, and publishes the causes of failures.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "transports/core/host.hpp"
#include "transports/core/process.hpp"
#include "transports/shm/wire.hpp"
#include "tutti/log.hpp"

namespace tutti::shm {

void ShmWire::report_once(int slot, const Cause& why) {
  {
    const std::lock_guard lock(reported_mutex_);
    if (reported_[static_cast<std::size_t>(slot)]) return;
    reported_[static_cast<std::size_t>(slot)] = true;
  }
  listener_.failed(why);
}

void ShmWire::report_published() {
  // Reads the count first: a cause published after that is found by the next check.
  seen_changes_.store(poison_.changes(), std::memory_order_relaxed);
  Cause why;
  for (int slot = 0; slot < poison_.slots(); ++slot)
    if (poison_.read(slot, why)) report_once(slot, why);
}

// Every rank posts each cause that it learns of, so only the first rank to post wakes the others.
bool ShmWire::post(const Cause& why) noexcept {
  if (ends_.empty()) return false;
  bool first = false;
  const int slot = poison_.post(why, local_index(why.culprit), first);
  if (slot < 0) {
    opens_all_ = true;
    return false;
  }
  if (!first) return true;
  {  // this rank knows the cause, so its listener is not told
    const std::lock_guard lock(reported_mutex_);
    reported_[static_cast<std::size_t>(slot)] = true;
  }
  ring_all(nullptr);
  return true;
}

void ShmWire::watch() {
  if (ends_.empty()) return;
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(watch_.fd(), events.data(), static_cast<int>(events.size()), 0);
  // A rank that ends because of another's death has posted that death before it closed anything.
  report_published();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
    number < by_local_.size() ? look_at(*by_local_[number]) : membership_.bell.hush();
  }
  watch_followers();
}

void ShmWire::watch_followers() {
  const std::size_t n = by_local_.size(), self = static_cast<std::size_t>(local_index(membership_.rank));
  int present = 0;
  for (std::size_t i = 1; i < n && present < most_watched; ++i) {
    const std::size_t local = (self + i) % n;
    End* const end = by_local_[local];
    if (!end || end->judged) continue;
    if (!end->peer.death && !open_death(end->peer)) {  // the process has ended
      look_at(*end);
      continue;
    }
    if (!end->watched && end->peer.death) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = local;
      end->watched = ::epoll_ctl(watch_.fd(), EPOLL_CTL_ADD, end->peer.death.fd(), &event) == 0;
      if (!end->watched)
        log(LogLevel::warn, std::string("another rank's process cannot be watched: ") + std::strerror(errno),
            membership_.rank);
    }
    if (!end->watched) continue;
    if (end->line->left.load(std::memory_order_acquire) == 0) ++present;
  }
}

/// Opens peer.death of a process that this rank has not watched so far. Returns false if the process has ended, and
/// true if it lives, even if no descriptor can be opened now.
bool ShmWire::open_death(Peer& peer) {
  Descriptor death = process_descriptor(peer.process);
  if (!death) return errno == EMFILE || errno == ENFILE || errno == ENOMEM;  // then a later call tries again
  const std::uint64_t start = process_start(peer.process);                   // 0: cannot be read now
  if (start != 0 && start != peer.start) return false;
  peer.death = std::move(death);
  return true;
}

void ShmWire::look_at(End& suspect) {
  if (suspect.judged) return;
  suspect.judged = true;
  if (suspect.peer.death) ::epoll_ctl(watch_.fd(), EPOLL_CTL_DEL, suspect.peer.death.fd(), nullptr);
  const bool said_goodbye =
      suspect.ended.load(std::memory_order_acquire) || suspect.line->left.load(std::memory_order_acquire) != 0;
  if (said_goodbye)
    suspect.ended.store(true, std::memory_order_release);
  else
    judge(suspect);
}

void ShmWire::judge(const End& dead) {
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = dead.peer.rank;
  why.reporter = membership_.rank;
  const std::string host = host_name();
  std::copy_n(host.data(), std::min(host.size(), sizeof(why.host) - 1), why.host);
  why.say("rank " + std::to_string(dead.peer.rank) + " (process " + std::to_string(dead.peer.pid) + " on host " + host +
          ") died, or exited without ending its communicators: see what it printed last, and dmesg for an "
          "out-of-memory kill");
  bool first = false;
  poison_.post(why, dead.peer.local, first);
  ring_all(&dead);  // even if another rank was first: that rank may have died before it woke the others
  ring_doorbell(membership_.doorbell.fd());
  // Reports the published cause, so that all ranks report the same one. Waits for it only for some ms, because the rank
  // that claimed the slot may have died before it wrote the cause.
  Cause agreed = why;
  for (int i = 0; !first && i < 100 && !poison_.read(dead.peer.local, agreed); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  report_once(dead.peer.local, agreed);
}

}  // namespace tutti::shm
