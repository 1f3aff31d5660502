// Moves bytes through the rings, sleeps, and detects dead ranks.
#include "transports/shm/wire.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "transports/core/barrier.hpp"
#include "transports/core/host.hpp"
#include "transports/shm/backend.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/memory.hpp"

namespace tutti::shm {
namespace {

// Large writes are published, and large reads free space, in pieces of this size, so that both sides copy in parallel.
constexpr std::size_t piece_bytes = std::size_t{16} << 10;

// Messages on the sockets: a goodbye, or a wake-up for the peer's background thread.
constexpr char goodbye = 'g';
constexpr char nudge = 'n';

void hush_doorbell(int fd) noexcept {
  std::uint64_t rings;
  [[maybe_unused]] const ssize_t n = ::read(fd, &rings, sizeof rings);
}

}  // namespace

ShmWire::ShmWire(Membership membership, TransportListener& listener)
    : membership_(std::move(membership)),
      listener_(listener),
      generation_(fork_generation()),
      by_rank_(static_cast<std::size_t>(membership_.size), nullptr),
      watch_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!watch_) throw Error(Code::resource, std::string("no epoll can be made: ") + std::strerror(errno));
  if (membership_.links.empty()) return;
  poison_ = membership_.segment.poison();
  reported_.resize(static_cast<std::size_t>(poison_.slots()));
  for (Link& link : membership_.links) {
    auto& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.rank = link.rank;
    peer.local = local_index(link.rank);
    peer.link = std::move(link);
    peer.out = membership_.segment.writer(peer.local);
    peer.in = membership_.segment.reader(peer.local);
    peer.line = &membership_.segment.line(peer.local);
    by_rank_[static_cast<std::size_t>(peer.rank)] = &peer;
    for (const bool process : {false, true}) {
      const int fd = (process ? peer.link.process : peer.link.socket).fd();
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = (peers_.size() - 1) * 2 + process;
      if (fd >= 0 && ::epoll_ctl(watch_.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
        throw Error(Code::resource, std::string("a peer's socket cannot be watched: ") + std::strerror(errno));
    }
  }
  share();
}

void ShmWire::share() {
  if (!membership_.arena) return;
  std::vector<Neighbour> neighbours(membership_.members.size());
  for (const auto& peer : peers_) {
    Neighbour& neighbour = neighbours[static_cast<std::size_t>(peer->local)];
    neighbour.arena = std::move(membership_.arenas[static_cast<std::size_t>(peer->local)]);
    neighbour.line = peer->line;
    neighbour.doorbell = peer->link.doorbell.fd();
    neighbour.process = peer->link.process_here;
    neighbour.death = peer->link.process.fd();
  }
  host_state_ = std::make_shared<HostState>(membership_.arena, std::move(neighbours), local_index(membership_.rank),
                                            membership_.cache_bytes, membership_.moves_threads);
}

std::unique_ptr<Backend> ShmWire::make_backend(const Group& group) {
  if (!host_state_ || group.size() < 2 || group.size() > most_ranks) return nullptr;
  std::vector<int> locals;
  for (const int member : group.members) locals.push_back(local_index(member));
  Shared least = Shared::own_memory;  // the same on all ranks, because all know about every pair
  for (const int a : locals)
    for (const int b : locals)
      least = a < 0 || b < 0
                  ? Shared::nothing
                  : std::min(least, membership_.shared[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]);
  if (least == Shared::nothing) return nullptr;
  return std::make_unique<ShmBackend>(host_state_, group, std::move(locals), least == Shared::own_memory);
}

std::shared_ptr<void> ShmWire::allocate(std::size_t bytes) {
  return host_state_ ? host_state_->allocate(bytes) : allocate_shared(bytes);
}

ShmWire::~ShmWire() { close({}); }

int ShmWire::local_index(int rank) const noexcept {
  const auto& members = membership_.members;
  const auto at = std::lower_bound(members.begin(), members.end(), rank);
  return at != members.end() && *at == rank ? static_cast<int>(at - members.begin()) : -1;
}

std::string ShmWire::describe(int to) const {
  if (!by_rank_[static_cast<std::size_t>(to)]) return {};
  return "rings of " + size_text(membership_.segment.capacity());
}

// ---- bytes

void ShmWire::show(Peer& to) noexcept {
  to.out.publish();
  if (to.line->sleep.load(std::memory_order_seq_cst) != Sleep::awake) ring_doorbell(to.link.doorbell.fd());
}

std::size_t ShmWire::write(int to, std::span<const ConstBytes> pieces) {
  Peer& target = peer(to);
  if (target.dropped) return 0;
  target.full = false;
  std::size_t total = 0;
  for (ConstBytes piece : pieces) {
    while (!piece.empty() && !target.full) {
      const std::size_t wanted = std::min(piece.size(), piece_bytes - target.out.unpublished());
      const std::size_t taken = target.out.put(piece.first(wanted));
      target.full = taken < wanted;
      total += taken;
      piece = piece.subspan(taken);
      if (target.out.unpublished() == piece_bytes) show(target);
    }
  }
  if (target.out.unpublished() != 0) show(target);
  return total;
}

void ShmWire::consume(int from, std::size_t bytes) {
  if (bytes == 0) return;
  Peer& source = peer(from);
  source.in.consume(bytes);
  if (source.line->sleep.load(std::memory_order_seq_cst) == Sleep::for_data_or_space)
    ring_doorbell(source.link.doorbell.fd());
}

std::size_t ShmWire::read(int from, Bytes into) {
  Peer& source = peer(from);
  std::size_t total = 0;
  while (total < into.size()) {
    const ConstBytes there = source.in.peek();
    const std::size_t n = std::min({there.size(), into.size() - total, piece_bytes});
    if (n == 0) break;
    std::memcpy(into.data() + total, there.data(), n);
    total += n;
    consume(from, n);
  }
  return total;
}

void ShmWire::poll(std::vector<int>& ranks) {
  if (peers_.empty()) return;
  if (poison_.changes() != seen_changes_.load(std::memory_order_relaxed)) report_published();
  for (const auto& peer : peers_)
    if (!peer->dropped && !peer->in.empty()) ranks.push_back(peer->rank);
}

void ShmWire::drop(int rank) noexcept {
  Peer* const gone = by_rank_[static_cast<std::size_t>(rank)];
  if (!gone) return;
  gone->dropped = true;
  gone->full = false;
}

// ---- sleeping; ring.hpp explains why no wake-up is lost

bool ShmWire::nothing_to_do() noexcept {
  for (const auto& peer : peers_)
    if (!peer->dropped && (!peer->in.still_empty() || (peer->full && peer->out.drained_since_full()))) return false;
  if (host_state_ && !host_state_->arm()) return false;
  return poison_.changes() == seen_changes_.load(std::memory_order_relaxed);
}

bool ShmWire::arm(bool on) {
  if (peers_.empty()) return true;
  RankLine& own = membership_.segment.line(local_index(membership_.rank));
  if (!on) {
    if (armed_ == Sleep::awake) return true;
    armed_ = Sleep::awake;
    own.sleep.store(Sleep::awake, std::memory_order_release);
    hush_doorbell(membership_.doorbell.fd());
    return true;
  }
  if (armed_ != Sleep::awake) hush_doorbell(membership_.doorbell.fd());  // it may have ended the previous sleep
  const bool full = std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->full; });
  const Sleep how = full ? Sleep::for_data_or_space : Sleep::for_data;
  if (armed_ != how) {
    own.sleep.store(how, std::memory_order_seq_cst);
    if (host_state_) heavy_barrier();  // pairs with light_barrier() in HostState::wake()
  }
  armed_ = how;
  if (nothing_to_do() && !(host_state_ && host_state_->tidy())) return true;
  armed_ = Sleep::awake;
  own.sleep.store(Sleep::awake, std::memory_order_release);
  return false;
}

void ShmWire::ring(int to) noexcept {
  const Peer* const target = by_rank_[static_cast<std::size_t>(to)];
  if (!target) return;
  ring_doorbell(target->link.doorbell.fd());
  // If the socket is full, the peer's `watch` descriptor is readable already.
  [[maybe_unused]] const ssize_t n = ::send(target->link.socket.fd(), &nudge, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// ---- failures

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

bool ShmWire::post(const Cause& why) noexcept {
  if (why.group != 0 || peers_.empty()) return false;
  bool first = false;
  const int slot = poison_.post(why, local_index(why.culprit), first);
  if (slot < 0) return false;
  if (first) {  // this rank's listener need not be told
    const std::lock_guard lock(reported_mutex_);
    reported_[static_cast<std::size_t>(slot)] = true;
  }
  for (const auto& peer : peers_) ring(peer->rank);
  return true;
}

void ShmWire::watch() {
  if (peers_.empty()) return;
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(watch_.fd(), events.data(), static_cast<int>(events.size()), 0);
  // A rank that ends because of another's death has posted that death before it closed anything.
  report_published();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    look_at(*peers_[id / 2], id % 2 != 0);
  }
}

void ShmWire::look_at(Peer& suspect, bool process_ended) {
  if (suspect.judged) return;
  char byte = nudge;
  ssize_t n = 1;
  while (n == 1 && byte == nudge) n = ::recv(suspect.link.socket.fd(), &byte, 1, MSG_DONTWAIT);
  const bool waiting = n < 0 && (errno == EAGAIN || errno == EINTR);
  if (waiting && !process_ended) return;
  suspect.judged = true;
  stop_watching(suspect);
  const bool said_goodbye = (n == 1 && byte == goodbye) || suspect.ended.load(std::memory_order_acquire) ||
                            suspect.line->left.load(std::memory_order_acquire) != 0;
  if (said_goodbye)
    suspect.ended.store(true, std::memory_order_release);
  else
    judge(suspect);
}

void ShmWire::stop_watching(const Peer& of) noexcept {
  ::epoll_ctl(watch_.fd(), EPOLL_CTL_DEL, of.link.socket.fd(), nullptr);
  if (of.link.process) ::epoll_ctl(watch_.fd(), EPOLL_CTL_DEL, of.link.process.fd(), nullptr);
}

void ShmWire::judge(const Peer& dead) {
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = dead.rank;
  why.reporter = membership_.rank;
  const std::string host = host_name();
  std::copy_n(host.data(), std::min(host.size(), sizeof(why.host) - 1), why.host);
  why.say("rank " + std::to_string(dead.rank) + " (process " + std::to_string(dead.link.pid) + " on host " + host +
          ") died, or exited without ending its communicators: see what it printed last, and dmesg for an "
          "out-of-memory kill");
  bool first = false;
  poison_.post(why, dead.local, first);
  for (const auto& peer : peers_)
    if (peer.get() != &dead) ring(peer->rank);
  ring_doorbell(membership_.doorbell.fd());
  // Uses the published cause, so that all ranks report the same one; but the rank that claimed the slot may have died
  // before it wrote the cause.
  Cause agreed = why;
  for (int i = 0; !first && i < 100 && !poison_.read(dead.local, agreed); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  report_once(dead.local, agreed);
}

void ShmWire::close(Deadline /*until*/) noexcept {
  // Nothing to flush: written data are in the segment, which lives as long as any rank maps it.
  if (closed_ || generation_ != fork_generation()) return;
  closed_ = true;
  if (peers_.empty()) return;
  membership_.segment.line(local_index(membership_.rank)).left.store(1, std::memory_order_release);
  for (const auto& peer : peers_)
    [[maybe_unused]] const ssize_t n = ::send(peer->link.socket.fd(), &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace tutti::shm
