// HostState: what the ranks of one host share besides their rings: every rank's arena and the slabs in it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <vector>

#include "transports/shm/arena.hpp"
#include "transports/shm/segment.hpp"
#include "transports/shm/slab.hpp"

namespace tutti::shm {

/// Another rank of the host, by local index; this rank's own entry is empty.
struct Neighbour {
  ArenaMap arena;
  const RankLine* line = nullptr;  ///< in the segment; lives as long as the wire
  int doorbell = -1;               ///< borrowed from the wire
  pid_t process = 0;               ///< the peer's process number as seen here
  int death = -1;                  ///< pidfd, readable once the peer has ended; borrowed from the wire; -1: none
};

/// Wakes the rank that sleeps on this eventfd.
void ring_doorbell(int fd) noexcept;

/// A communicator's slab in this rank's arena.
struct OwnSlab {
  Slab* slab = nullptr;
  DirectoryEntry* entry = nullptr;
  bool common_size = true;  ///< whether the rounds' slots have the common size, so that they can be reused
};

/// Threads: the holder of the progress token, except for allocate(). Lives until the wire and all allocated memory are
/// gone.
class HostState {
 public:
  /// `own` already contains its directory.
  HostState(std::shared_ptr<Arena> own, std::vector<Neighbour> neighbours, int self, std::size_t cache_bytes,
            bool moves_threads);

  const ArenaMap& arena(int local) const noexcept {
    return local == self_ ? own_->map() : neighbours_[static_cast<std::size_t>(local)].arena;
  }
  std::shared_ptr<void> allocate(std::size_t bytes) { return own_->allocate(bytes); }

  /// Total bytes of the L3 caches of these ranks' cores; 0: unknown.
  std::size_t cache_bytes() const noexcept { return cache_bytes_; }

  /// Whether a thread may be moved to another core than the kernel has chosen.
  bool moves_threads() const noexcept { return moves_threads_; }

  /// Never reuses own memory that other ranks may still write to.
  void quarantine(const std::byte* data) noexcept { own_->quarantine(data); }

  bool left(int local) const noexcept {
    return neighbours_[static_cast<std::size_t>(local)].line->left.load(std::memory_order_acquire) != 0;
  }
  pid_t process(int local) const noexcept { return neighbours_[static_cast<std::size_t>(local)].process; }
  bool lives(int local) const noexcept;
  /// Wakes those of `locals` that sleep; call after posting words.
  void wake(std::span<const int> locals) const noexcept;

  // ---- slabs

  /// Creates a zeroed slab for `group` and publishes it in the directory. Throws Error{resource}.
  OwnSlab open_slab(std::uint64_t group);
  /// The two slots of a slab's rounds, of `bytes` each; allocated at the first call. Throws Error{resource}.
  std::byte* open_rounds(OwnSlab& own, std::size_t bytes);
  std::byte* rounds(int local, const Slab& slab) const noexcept { return arena(local).at(slab.rounds); }

  /// The directory entry of rank `local` for `group`; null if it does not exist yet.
  const DirectoryEntry* find(int local, std::uint64_t group) const noexcept;
  const Word& published(int local) const noexcept { return directory(local).published; }
  const Slab& slab(int local, const DirectoryEntry& entry) const noexcept {
    return *reinterpret_cast<const Slab*>(arena(local).at(entry.slab));
  }

  /// Ends the communicator on this rank. Its slab is freed once no other rank can access it.
  void retire(const OwnSlab& own, std::vector<int> locals);

 private:
  struct Retired {
    OwnSlab own;
    std::uint64_t group;
    std::vector<int> locals;                     // local indices of the other members
    std::vector<const DirectoryEntry*> entries;  // the other members' entries, once all are found
  };
  const DirectoryPage& directory(int local) const noexcept {
    return *reinterpret_cast<const DirectoryPage*>(arena(local).at(0));
  }
  DirectoryEntry& free_entry();
  bool can_go(Retired& one) const;
  void sweep();
  void free(const OwnSlab& own) noexcept;
  /// Returns `bytes` from the list of freed blocks, or from the arena.
  std::size_t take(std::vector<std::size_t>& spares, std::size_t bytes);

  std::shared_ptr<Arena> own_;
  std::vector<Neighbour> neighbours_;
  int self_;
  std::size_t cache_bytes_;
  bool moves_threads_;
  std::vector<Retired> retired_;
  std::size_t open_ = 0;  // slabs in use
  std::vector<std::size_t> spare_slabs_, spare_rounds_;
};

}  // namespace tutti::shm
