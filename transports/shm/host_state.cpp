// Publishing, finding and freeing slabs.
//
// Other ranks may read a slab after its rank has left the communicator, or may not have looked for it yet. So it is
// freed in two steps: a rank that has left marks its entry `closed` once it has found the entries of all others; it
// frees slab and entry once all others' entries are closed or reused for another communicator, which happens only after
// they have seen this rank's mark.
#include "transports/shm/host_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "transports/core/barrier.hpp"
#include "transports/core/process.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t most_spares = 4;

}  // namespace

void ring_doorbell(int fd) noexcept {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the doorbell is readable already.
  [[maybe_unused]] const ssize_t n = ::write(fd, &one, sizeof one);
}

HostState::HostState(std::shared_ptr<Arena> own, std::vector<Neighbour> neighbours, int self, std::size_t cache_bytes,
                     bool moves_threads)
    : own_(std::move(own)),
      neighbours_(std::move(neighbours)),
      self_(self),
      cache_bytes_(cache_bytes),
      moves_threads_(moves_threads) {}

bool HostState::lives(int local) const noexcept {
  const Neighbour& other = neighbours_[static_cast<std::size_t>(local)];
  return process_lives(other.process, other.death);
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

std::size_t HostState::take(std::vector<std::size_t>& spares, std::size_t bytes) {
  if (spares.empty()) return own_->take(bytes);
  const std::size_t offset = spares.back();
  spares.pop_back();
  return offset;
}

DirectoryEntry& HostState::free_entry() {
  auto* page = reinterpret_cast<DirectoryPage*>(own_->map().at(0));
  for (;;) {
    for (DirectoryEntry& entry : page->entries)
      if (entry.group.load(std::memory_order_relaxed) == 0) return entry;
    std::size_t next = page->next.load(std::memory_order_relaxed);
    if (next == 0) {
      next = own_->take(sizeof(DirectoryPage));
      page->next.store(next, std::memory_order_release);
    }
    page = reinterpret_cast<DirectoryPage*>(own_->map().at(next));
  }
}

const DirectoryEntry* HostState::find(int local, std::uint64_t group) const noexcept {
  const DirectoryPage* page = &directory(local);
  for (;;) {
    for (const DirectoryEntry& entry : page->entries)
      if (entry.group.load(std::memory_order_acquire) == group) return &entry;
    const std::uint64_t next = page->next.load(std::memory_order_acquire);
    if (next == 0) return nullptr;
    page = reinterpret_cast<const DirectoryPage*>(arena(local).at(next));
  }
}

OwnSlab HostState::open_slab(std::uint64_t group) {
  sweep();
  retired_.reserve(retired_.size() + ++open_);  // so that retire() does not allocate
  OwnSlab own;
  own.entry = &free_entry();
  own.entry->slab = take(spare_slabs_, sizeof(Slab));
  own.slab = new (own_->map().at(own.entry->slab)) Slab;
  own.entry->closed.store(0, std::memory_order_relaxed);
  own.entry->group.store(group, std::memory_order_release);
  auto& published = reinterpret_cast<DirectoryPage*>(own_->map().at(0))->published;
  published.store(published.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return own;
}

std::byte* HostState::open_rounds(OwnSlab& own, std::size_t bytes) {
  if (own.slab->rounds == 0) {
    own.common_size = bytes == room_bytes;
    own.slab->rounds = own.common_size ? take(spare_rounds_, 2 * bytes) : own_->take(2 * bytes);
  }
  return own_->map().at(own.slab->rounds);
}

void HostState::retire(const OwnSlab& own, std::vector<int> locals) {
  std::erase(locals, self_);
  --open_;
  retired_.push_back({own, own.entry->group.load(std::memory_order_relaxed), std::move(locals), {}});
  sweep();
}

bool HostState::can_go(Retired& one) const {
  if (one.entries.empty()) {
    std::vector<const DirectoryEntry*> found;
    for (const int local : one.locals) {
      const DirectoryEntry* const entry = find(local, one.group);
      if (entry == nullptr) return false;
      found.push_back(entry);
    }
    one.entries = std::move(found);
    one.own.entry->closed.store(1, std::memory_order_release);
  }
  return std::ranges::all_of(one.entries, [&](const DirectoryEntry* entry) {
    return entry->group.load(std::memory_order_acquire) != one.group ||
           entry->closed.load(std::memory_order_acquire) == 1;
  });
}

void HostState::sweep() {
  std::erase_if(retired_, [this](Retired& one) {
    if (!can_go(one)) return false;
    free(one.own);
    return true;
  });
}

void HostState::free(const OwnSlab& own) noexcept {
  const auto keep = [this](std::vector<std::size_t>& spares, std::size_t offset) {
    if (spares.size() < most_spares)
      spares.push_back(offset);
    else
      own_->give_back(offset);
  };
  if (own.slab->rounds != 0 && own.common_size) keep(spare_rounds_, own.slab->rounds);
  if (own.slab->rounds != 0 && !own.common_size) own_->give_back(own.slab->rounds);
  own.entry->group.store(0, std::memory_order_release);
  keep(spare_slabs_, own.entry->slab);
}

}  // namespace tutti::shm
