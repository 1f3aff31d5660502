// Opens rings, moves bytes through them, and sleeps; deaths.cpp detects dead ranks.
#include "transports/shm/wire.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "transports/core/barrier.hpp"
#include "transports/core/host.hpp"
#include "transports/shm/backend.hpp"
#include "transports/stream/frames.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/memory.hpp"

namespace tutti::shm {
namespace {

// Large writes are published, and large reads free space, in pieces of this size, so that both sides copy in parallel.
constexpr std::size_t piece_bytes = std::size_t{16} << 10;

// The goodbye frame that this rank reads in place of the peer's if the peer has left without ever writing to it.
constexpr std::size_t last_bytes = sizeof(stream::Frame);
ConstBytes last_words() noexcept {
  static const stream::Frame frame = [] {
    stream::Frame goodbye(stream::FrameType::goodbye, {}, 0, 0);
    goodbye.part = 1;
    return goodbye;
  }();
  return std::as_bytes(std::span(&frame, 1));
}

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
  if (membership_.peers.empty()) return;
  poison_ = membership_.segment.poison();
  own_ = &membership_.segment.line(local_index(membership_.rank));
  reported_.resize(static_cast<std::size_t>(poison_.slots()));
  by_local_.resize(membership_.members.size(), nullptr);
  for (auto* const some : {&readers_, &writers_}) some->reserve(membership_.peers.size());  // push_back() cannot throw
  for (Peer& peer : membership_.peers) {
    auto& end = *ends_.emplace_back(std::make_unique<End>());
    end.peer = std::move(peer);
    end.line = &membership_.segment.line(end.peer.local);
    by_rank_[static_cast<std::size_t>(end.peer.rank)] = by_local_[static_cast<std::size_t>(end.peer.local)] = &end;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = by_local_.size();
  if (::epoll_ctl(watch_.fd(), EPOLL_CTL_ADD, membership_.bell.fd(), &event) != 0)
    throw Error(Code::resource, std::string("a socket cannot be watched: ") + std::strerror(errno));
  watch_followers();
  share();
}

void ShmWire::share() {
  if (!membership_.arena) return;
  std::vector<Neighbour> neighbours(membership_.members.size());
  for (const auto& end : ends_) {
    Neighbour& neighbour = neighbours[static_cast<std::size_t>(end->peer.local)];
    neighbour.line = end->line;
    neighbour.doorbell = end->peer.doorbell.fd();
    neighbour.process = end->peer.process;
    neighbour.start = end->peer.start;
    neighbour.death = end->peer.death.fd();
  }
  host_state_ = std::make_shared<HostState>(membership_.arena, std::move(neighbours), local_index(membership_.rank),
                                            membership_.cache_bytes, membership_.moves_threads);
}

std::unique_ptr<Backend> ShmWire::make_backend(const Group& group) {
  if (!host_state_ || group.size() < 2 || group.size() > most_ranks) return nullptr;
  std::vector<int> locals;
  for (const int member : group.members) locals.push_back(local_index(member));
  Shared least = Shared::own_memory;  // the same on all ranks, because all have the same table
  for (const int local : locals)
    least = local < 0 ? Shared::nothing : std::min(least, membership_.shared[static_cast<std::size_t>(local)]);
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

// ---- opening rings

// True if aborts and goodbyes are written to `to`. They open no ring unless the record of failures is full.
bool ShmWire::open(int to) const noexcept {
  const End* const end = by_rank_[static_cast<std::size_t>(to)];
  return end && (end->writes || opens_all_);
}

// Opens no ring to a rank that has left; this rank then receives its last words instead.
bool ShmWire::open_ring(End& to) noexcept {
  if (to.line->left.load(std::memory_order_acquire) != 0) hear_last_words(to);
  if (ring_failed_ || to.silent) return false;
  try {
    to.out = membership_.segment.open_writer(to.peer.local);
    writers_.push_back(&to);
    to.writes = true;
  } catch (const Error& error) {
    no_ring(error);
  }
  return to.writes;
}

// Without a ring this rank cannot be reached, or cannot reach others: its communicators end.
void ShmWire::no_ring(const Error& error) noexcept {
  ring_failed_ = true;
  Cause why;
  why.code = error.code();
  why.culprit = why.reporter = membership_.rank;
  why.say("rank " + std::to_string(membership_.rank) + ": " + error.what());
  listener_.failed(why);
}

void ShmWire::open_new_rings() noexcept {
  seen_opened_ = own_->opened.load(std::memory_order_seq_cst);
  for (std::size_t local = 0; local < by_local_.size(); ++local) {
    if (!membership_.segment.is_open(static_cast<int>(local))) continue;
    End* const end = by_local_[local];
    if (!end || end->reads || end->dropped) continue;
    try {
      end->in = membership_.segment.open_reader(end->peer.local);
    } catch (const Error& error) {
      return no_ring(error);
    }
    end->reads = true;
    readers_.push_back(end);
  }
}

// A rank that leaves writes a goodbye to each of its open rings. Ranks that wait for it and have no such ring learn of
// its end here.
void ShmWire::hear_leavers() noexcept {
  for (const std::uint32_t now = membership_.segment.leavers(); seen_leavers_ < now; ++seen_leavers_) {
    const int local = membership_.segment.leaver(seen_leavers_);
    if (local < 0) return;  // that rank is about to write its index, unless it was killed just then
    if (End* const end = by_local_[static_cast<std::size_t>(local)]; end && end->asks) hear_last_words(*end);
  }
}

void ShmWire::hear_last_words(End& of) noexcept {
  if (of.reads || of.silent || of.dropped) return;
  if (membership_.segment.is_open(of.peer.local)) return;  // it has written before it left
  of.silent = true;
  readers_.push_back(&of);
}

void ShmWire::expect(int from) {
  End& end = end_of(from);
  if (end.reads || end.asks) return;
  end.asks = true;
  membership_.segment.wait_for(end.peer.local);
  if (end.line->left.load(std::memory_order_seq_cst) != 0) hear_last_words(end);
}

// ---- bytes

void ShmWire::show(End& to) noexcept {
  to.out.publish();
  if (to.line->sleep.load(std::memory_order_seq_cst) != Sleep::awake) ring_doorbell(to.peer.doorbell.fd());
}

std::size_t ShmWire::write(int to, std::span<const ConstBytes> pieces) {
  End& target = end_of(to);
  if (target.dropped || (!target.writes && !open_ring(target))) return 0;
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

ConstBytes ShmWire::peek(int from) {
  End& source = end_of(from);
  if (!source.reads && own_->opened.load(std::memory_order_acquire) != seen_opened_) open_new_rings();
  if (source.reads) return source.in.peek();
  return source.silent ? last_words().subspan(source.said) : ConstBytes();
}

void ShmWire::consume(int from, std::size_t bytes) {
  if (bytes == 0) return;
  End& source = end_of(from);
  if (!source.reads) {
    source.said += bytes;
    return;
  }
  source.in.consume(bytes);
  if (source.line->sleep.load(std::memory_order_seq_cst) == Sleep::for_data_or_space)
    ring_doorbell(source.peer.doorbell.fd());
}

std::size_t ShmWire::read(int from, Bytes into) {
  std::size_t total = 0;
  while (total < into.size()) {
    const ConstBytes there = peek(from);
    const std::size_t n = std::min({there.size(), into.size() - total, piece_bytes});
    if (n == 0) break;
    std::memcpy(into.data() + total, there.data(), n);
    total += n;
    consume(from, n);
  }
  return total;
}

void ShmWire::poll(std::vector<int>& ranks) {
  if (ends_.empty()) return;
  if (poison_.changes() != seen_changes_.load(std::memory_order_relaxed)) report_published();
  if (own_->opened.load(std::memory_order_acquire) != seen_opened_) open_new_rings();
  if (membership_.segment.leavers() != seen_leavers_) hear_leavers();
  for (const End* const end : readers_)
    if (!end->dropped && (end->reads ? !end->in.empty() : end->said < last_bytes)) ranks.push_back(end->peer.rank);
}

void ShmWire::drop(int rank) noexcept {
  End* const gone = by_rank_[static_cast<std::size_t>(rank)];
  if (!gone) return;
  gone->dropped = true;
  gone->full = false;
}

// ---- sleeping; ring.hpp explains why no wake-up is lost

bool ShmWire::nothing_to_do() noexcept {
  if (own_->opened.load(std::memory_order_seq_cst) != seen_opened_) return false;
  if (membership_.segment.leavers() != seen_leavers_ && membership_.segment.leaver(seen_leavers_) >= 0) return false;
  for (const End* const end : readers_)
    if (!end->dropped && (end->reads ? !end->in.still_empty() : end->said < last_bytes)) return false;
  for (const End* const end : writers_)
    if (!end->dropped && end->full && end->out.drained_since_full()) return false;
  if (host_state_ && !host_state_->arm()) return false;
  return poison_.changes() == seen_changes_.load(std::memory_order_relaxed);
}

bool ShmWire::arm(bool on) {
  if (ends_.empty()) return true;
  if (!on) {
    if (armed_ == Sleep::awake) return true;
    armed_ = Sleep::awake;
    own_->sleep.store(Sleep::awake, std::memory_order_release);
    hush_doorbell(membership_.doorbell.fd());
    return true;
  }
  if (armed_ != Sleep::awake) hush_doorbell(membership_.doorbell.fd());  // it may have ended the previous sleep
  const bool full = std::ranges::any_of(writers_, &End::full);
  const Sleep how = full ? Sleep::for_data_or_space : Sleep::for_data;
  if (armed_ != how) {
    own_->sleep.store(how, std::memory_order_seq_cst);
    is_fenced_ = false;
  }
  armed_ = how;
  // Pairs with light_barrier() in HostState::wake(). Only collectives of the shm backend wait for what is posted there.
  // The barrier interrupts all cores, so a rank that sleeps only for messages does not make it. A call that starts
  // later makes this rank arm again.
  if (host_state_ && host_state_->is_busy() && !std::exchange(is_fenced_, true)) heavy_barrier();
  if (nothing_to_do() && !(host_state_ && host_state_->tidy())) return true;
  armed_ = Sleep::awake;
  own_->sleep.store(Sleep::awake, std::memory_order_release);
  return false;
}

// A rank that has left wakes up for nothing; this rank then receives its last words, even if it expects no message.
void ShmWire::ring(int to) noexcept {
  End* const target = by_rank_[static_cast<std::size_t>(to)];
  if (!target) return;
  if (target->line->left.load(std::memory_order_acquire) != 0) hear_last_words(*target);
  wake(*target);
}

void ShmWire::wake(const End& target) noexcept {
  ring_doorbell(target.peer.doorbell.fd());
  membership_.bell.ring(target.peer.bell);
}

void ShmWire::ring_all(const End* but) noexcept {
  for (const auto& end : ends_)
    if (end.get() != but) wake(*end);
}

// ---- leaving

void ShmWire::close(Deadline /*until*/) noexcept {
  // Nothing to flush: written data are in the segment, which lives as long as any rank maps it.
  if (closed_ || generation_ != fork_generation()) return;
  closed_ = true;
  if (ends_.empty()) return;
  membership_.segment.leave();
  for (const auto& end : ends_)
    if (membership_.segment.is_awaited_by(end->peer.local) &&
        end->line->sleep.load(std::memory_order_seq_cst) != Sleep::awake)
      ring_doorbell(end->peer.doorbell.fd());
  const std::size_t n = by_local_.size(), self = static_cast<std::size_t>(local_index(membership_.rank));
  for (std::size_t i = 1, told = 0; i < n && told < most_watched;
       ++i) {  // wakes the ranks that now have to watch this rank's followers
    const End* const end = by_local_[(self + n - i) % n];
    if (end && end->line->left.load(std::memory_order_acquire) == 0 && membership_.bell.ring(end->peer.bell)) ++told;
  }
}

}  // namespace tutti::shm
