// HostState: what the ranks of one host share besides their rings: every rank's arena and the slabs in it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <vector>

#include "transports/shm/arena.hpp"
#include "transports/shm/rooms.hpp"
#include "transports/shm/segment.hpp"
#include "transports/shm/slab.hpp"
#include "tutti/clock.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti::shm {

/// Another rank of the host, by local index; this rank's own entry is empty.
struct Neighbour {
  const RankLine* line = nullptr;  ///< in the segment; valid as long as the wire lives
  int doorbell = -1;               ///< borrowed from the wire
  pid_t process = 0;               ///< the peer's process number as seen here
  std::uint64_t start = 0;         ///< when the process began; 0: unknown
  int death = -1;  ///< readable once the peer has ended; borrowed from the wire; -1: check `process` and `start`
};

/// Wakes the rank that sleeps on this eventfd.
void ring_doorbell(int fd) noexcept;

/// A communicator's slab, which is its memory in this rank's arena.
struct OwnSlab {
  Slab* slab = nullptr;
  std::size_t at = 0;         ///< offset of the slab in the arena
  bool shares_rounds = true;  ///< true if the rounds' slots are a room, which another communicator can take over
};

/// Any thread may call allocate(); all other functions are called with the progress token (the context's lock) held.
/// The wire and the backends share ownership. Memory that allocate() returned keeps only the arena alive.
class HostState {
 public:
  /// `own` must already contain its directory, at offset 0. `neighbours`: by local index. `self`: this rank's index.
  HostState(std::shared_ptr<Arena> own, std::vector<Neighbour> neighbours, int self, std::size_t cache_bytes,
            bool moves_threads);

  ArenaMap arena(int local) const noexcept { return arenas_.of(local); }
  std::shared_ptr<void> allocate(std::size_t bytes) { return own_->allocate(bytes); }

  /// Total bytes of the L3 caches of these ranks' cores; 0: unknown.
  std::size_t cache_bytes() const noexcept { return cache_bytes_; }

  /// True if tutti may move a thread from the core that the kernel has chosen to another one.
  bool moves_threads() const noexcept { return moves_threads_; }

  /// Never reuses this rank's block that contains `data`, because other ranks may still write to it.
  void quarantine(const std::byte* data) noexcept { own_->quarantine(data); }

  bool left(int local) const noexcept {
    return neighbours_[static_cast<std::size_t>(local)].line->left.load(std::memory_order_acquire) != 0;
  }
  pid_t process(int local) const noexcept { return neighbours_[static_cast<std::size_t>(local)].process; }
  bool lives(int local) const noexcept;
  /// Wakes those of `locals` that sleep; call after posting words.
  void wake(std::span<const int> locals) const noexcept;

  // ---- slabs and rooms

  /// Creates a zeroed slab for `group` and publishes it in the directory. Throws Error{resource}.
  OwnSlab open_slab(std::uint64_t group);
  /// Allocates zeroed memory for a slab, which is freed with the slab; returns its offset. Throws Error{resource}.
  std::size_t take(std::size_t bytes) { return own_->take(bytes); }
  /// Rooms of one Shots each, and rooms of two slots each, for even and odd rounds, of room_bytes per slot.
  Rooms& shots() noexcept { return shots_; }
  Rooms& rounds() noexcept { return rounds_; }
  std::byte* at(int local, std::uint64_t offset) const noexcept { return arena(local).at(offset); }

  /// The slab of rank `local` for `group`; null if it does not exist yet, or if the directory changed during the
  /// search.
  const Slab* find(int local, std::uint64_t group) const noexcept;
  const Word& changes(int local) const noexcept { return directory(local).changes; }

  /// Ends the communicator on this rank. The memory of its slab is freed once no other rank can access it.
  void retire(const OwnSlab& own, std::vector<int> locals);

  // ---- backends, of which only those with calls in flight are driven

  void add_busy(Engine& backend) { busy_.push_back(&backend); }
  void remove_busy(const Engine& backend) noexcept { std::erase(busy_, &backend); }
  bool is_busy() const noexcept { return !busy_.empty(); }
  bool drive() {
    bool moved = false;
    for (std::size_t i = 0; i < busy_.size(); ++i) moved |= busy_[i]->progress();  // may add and remove backends
    return moved;
  }
  /// Calls Engine::arm(true) of the busy backends; false as soon as one of them returns false.
  bool arm() {
    for (std::size_t i = 0; i < busy_.size(); ++i)
      if (!busy_[i]->arm(true)) return false;
    return true;
  }
  /// Frees memory that is not needed. Call when there is nothing else to do. A call does a bounded amount of work;
  /// true: call again.
  bool tidy() {
    shots_.tidy();
    rounds_.tidy();
    if (empty_.size() > most_empty && hollow_some()) return true;
    return !retired_.empty() && sweep() && !retired_.empty();
  }

 private:
  static constexpr std::size_t most_empty = 64;  // free slabs that keep their memory

  struct Retired {
    OwnSlab own;
    std::uint64_t group;
    std::vector<int> locals;         // local indices of the other members
    std::vector<const Slab*> slabs;  // the other members' slabs, once all are found
  };
  const Directory& directory(int local) const noexcept {
    return *reinterpret_cast<const Directory*>(arena(local).at(0));
  }
  Directory& own_directory() noexcept { return *reinterpret_cast<Directory*>(own_->map().at(0)); }
  Slab& slab_at(std::size_t offset) const noexcept { return *reinterpret_cast<Slab*>(own_->map().at(offset)); }
  std::size_t empty_slab();
  void publish(std::size_t offset, std::uint64_t group) noexcept;
  void withdraw(std::size_t offset) noexcept;
  bool can_go(Retired& one) const;
  bool sweep();
  bool hollow_some();
  void free(const OwnSlab& own) noexcept;

  std::shared_ptr<Arena> own_;
  const Arenas& arenas_;
  std::vector<Neighbour> neighbours_;
  int self_;
  std::size_t cache_bytes_;
  bool moves_threads_;
  std::vector<Engine*> busy_;
  Rooms shots_, rounds_;
  std::vector<Retired> retired_;
  std::size_t next_retired_ = 0;  // where the next sweep begins
  std::size_t open_ = 0;          // slabs in use
  Clock::time_point last_freed_{};
  std::vector<std::size_t> empty_, hollow_;  // offsets of free slabs; those in hollow_ have no pages
};

}  // namespace tutti::shm
