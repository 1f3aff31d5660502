// Publishing, finding and freeing slabs.
//
// Other ranks may read a slab after its rank has left the communicator, or may not have looked it up yet. So a slab is
// freed in two steps. A rank that has left marks its slab `closed` once it has found the slabs of all others. It frees
// its slab once the slabs of all others are closed or belong to another communicator; the latter happens only after
// their ranks have seen this rank's mark.
//
// A rank that follows a chain of the directory's hash table while a slab is removed may go on in another chain and miss
// its slab. Directory::changes then shows that it has to search again.
#include "transports/shm/host_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "transports/core/barrier.hpp"
#include "transports/core/process.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t slab_stride = 4096;
constexpr std::size_t slabs_per_block = 16;  // slabs that are allocated together
constexpr std::size_t most_hollowed = 64;    // slabs whose pages are returned to the system in one call
constexpr Seconds still_read{1.0};           // time in which other ranks notice that a slab was freed
constexpr std::size_t most_swept = 64;       // ended communicators that are checked in one sweep
static_assert(sizeof(Slab) <= slab_stride && slab_stride % alignof(Slab) == 0);

}  // namespace

void ring_doorbell(int fd) noexcept {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the doorbell is readable already.
  [[maybe_unused]] const ssize_t n = ::write(fd, &one, sizeof one);
}

HostState::HostState(std::shared_ptr<Arena> own, std::vector<Neighbour> neighbours, int self, std::size_t cache_bytes,
                     bool moves_threads)
    : own_(std::move(own)),
      arenas_(*own_->all()),
      neighbours_(std::move(neighbours)),
      self_(self),
      cache_bytes_(cache_bytes),
      moves_threads_(moves_threads),
      shots_(*own_, sizeof(Shots)),
      rounds_(*own_, 2 * room_bytes) {}

bool HostState::lives(int local) const noexcept {
  const Neighbour& other = neighbours_[static_cast<std::size_t>(local)];
  if (other.death >= 0) return process_lives(other.process, other.death);
  const Descriptor death = process_descriptor(other.process);
  if (!death) return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
  const std::uint64_t start = process_start(other.process);  // 0: cannot be read now
  return (start == 0 || start == other.start) && process_lives(other.process, death.fd());
}

void HostState::wake(std::span<const int> locals) const noexcept {
  light_barrier();  // pairs with heavy_barrier() in ShmWire::arm()
  for (const int local : locals) {
    if (local == self_) continue;
    const Neighbour& other = neighbours_[static_cast<std::size_t>(local)];
    if (other.line->sleep.load(std::memory_order_relaxed) == Sleep::awake) continue;
    ring_doorbell(other.doorbell);
  }
}

// ---- the directory

const Slab* HostState::find(int local, std::uint64_t group) const noexcept {
  constexpr int glance = 1000;  // far more slabs than a chain has; a chain that changes meanwhile may not end
  const Directory& all = directory(local);
  std::uint64_t at = all.head(group).load(std::memory_order_acquire);
  for (int seen = 0; at != 0 && seen < glance; ++seen) {
    const Slab& slab = *reinterpret_cast<const Slab*>(arena(local).at(at));
    if (slab.group.load(std::memory_order_acquire) == group) return &slab;
    at = slab.next.load(std::memory_order_acquire);
  }
  return nullptr;
}

void HostState::publish(std::size_t offset, std::uint64_t group) noexcept {
  Directory& all = own_directory();
  Slab& slab = slab_at(offset);
  Word& head = all.head(group);
  slab.next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  slab.group.store(group, std::memory_order_release);
  head.store(offset, std::memory_order_release);
  all.changes.store(all.changes.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void HostState::withdraw(std::size_t offset) noexcept {
  Directory& all = own_directory();
  Slab& slab = slab_at(offset);
  Word* link = &all.head(slab.group.load(std::memory_order_relaxed));
  while (link->load(std::memory_order_relaxed) != offset) link = &slab_at(link->load(std::memory_order_relaxed)).next;
  link->store(slab.next.load(std::memory_order_relaxed), std::memory_order_release);
  slab.group.store(0, std::memory_order_release);
  all.changes.store(all.changes.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// ---- slabs

std::size_t HostState::empty_slab() {
  if (empty_.empty() && !hollow_.empty()) {
    own_->fill(hollow_.back(), slab_stride);
    empty_.push_back(hollow_.back());
    hollow_.pop_back();
  } else if (empty_.empty()) {
    const std::size_t block = own_->take(slabs_per_block * slab_stride);
    for (std::size_t i = slabs_per_block; i-- > 0;) empty_.push_back(block + i * slab_stride);
  }
  const std::size_t offset = empty_.back();
  empty_.pop_back();
  return offset;
}

OwnSlab HostState::open_slab(std::uint64_t group) {
  sweep();
  ++open_;
  // The lists grow here, because retiring and freeing must not allocate.
  if (const std::size_t all = retired_.size() + open_; all > retired_.capacity()) retired_.reserve(2 * all);
  const std::size_t slabs = hollow_.size() + empty_.size() + retired_.size() + open_ + slabs_per_block;
  for (auto* const some : {&empty_, &hollow_})
    if (slabs > some->capacity()) some->reserve(2 * slabs);
  OwnSlab own;
  try {
    own.at = empty_slab();
  } catch (...) {
    --open_;
    throw;
  }
  Slab& slab = slab_at(own.at);
  // Leaves out `group` and `next`: a rank that came here through the chain of an earlier slab may be reading them.
  std::memset(static_cast<void*>(&slab), 0, offsetof(Slab, group));
  std::memset(static_cast<void*>(slab.packets.data()), 0, sizeof slab.packets);
  slab.closed.store(0, std::memory_order_relaxed);
  own.slab = &slab;
  publish(own.at, group);
  return own;
}

void HostState::retire(const OwnSlab& own, std::vector<int> locals) {
  std::erase(locals, self_);
  --open_;
  retired_.push_back({own, own.slab->group.load(std::memory_order_relaxed), std::move(locals), {}});
  sweep();
}

bool HostState::can_go(Retired& one) const {
  if (one.slabs.empty()) {
    std::vector<const Slab*> found;
    for (const int local : one.locals) {
      const Slab* const slab = find(local, one.group);
      if (slab == nullptr) return false;
      found.push_back(slab);
    }
    one.slabs = std::move(found);
    one.own.slab->closed.store(1, std::memory_order_release);
  }
  return std::ranges::all_of(one.slabs, [&](const Slab* slab) {
    return slab->group.load(std::memory_order_acquire) != one.group ||
           slab->closed.load(std::memory_order_acquire) == 1;
  });
}

// Frees the slabs of ended communicators that no rank accesses any more. Checks at most most_swept of them, from where
// the last sweep ended, so that ending many communicators does not take quadratic time. True if it freed any.
bool HostState::sweep() {
  bool freed = false;
  for (std::size_t left = std::min(most_swept, retired_.size()); left > 0; --left) {
    if (next_retired_ >= retired_.size()) next_retired_ = 0;
    Retired& one = retired_[next_retired_];
    if (!can_go(one)) {
      ++next_retired_;
      continue;
    }
    free(one.own);
    freed = true;
    std::swap(one, retired_.back());
    retired_.pop_back();
  }
  return freed;
}

void HostState::free(const OwnSlab& own) noexcept {
  const Slab& slab = *own.slab;
  if (slab.wide != 0) own_->give_back(slab.wide);
  if (slab.shots != 0) shots_.put_back(slab.shots);
  if (slab.rounds != 0 && own.shares_rounds) rounds_.put_back(slab.rounds);
  if (slab.rounds != 0 && !own.shares_rounds) own_->give_back(slab.rounds);
  withdraw(own.at);
  empty_.push_back(own.at);
  last_freed_ = Clock::now();
}

// Returns the pages of free slabs to the system, 1 s after the last one was freed: until other ranks have freed theirs,
// they read the freed slab, which would allocate its pages again. True if more are left.
bool HostState::hollow_some() {
  if (Clock::now() - last_freed_ < still_read) return false;
  for (std::size_t left = most_hollowed; left > 0 && empty_.size() > most_empty; --left) {
    own_->hollow(empty_.back(), slab_stride);
    hollow_.push_back(empty_.back());
    empty_.pop_back();
  }
  return empty_.size() > most_empty;
}

}  // namespace tutti::shm
