// Commons: what the ranks of one host share beside their rings: every rank's arena, and the slabs in them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <vector>

#include "transports/shm/arena.hpp"
#include "transports/shm/segment.hpp"
#include "transports/shm/slab.hpp"

namespace tutti::shm {

/// Another rank of the host, by local index; the own place in the list is empty.
struct Neighbour {
  ArenaMap arena;
  const RankLine* line = nullptr;  ///< in the segment: as long as the wire
  int doorbell = -1;               ///< the wire's
  pid_t process = 0;               ///< as this process sees it
  int death = -1;                  ///< can be read when it has ended; the wire's; -1: none
};

/// Wakes who sleeps at that eventfd.
void ring_doorbell(int fd) noexcept;

/// A communicator's slab in the own arena.
struct OwnSlab {
  Slab* slab = nullptr;
  DirectoryEntry* entry = nullptr;
  bool common_size = true;  ///< of its rounds' slots: others can use them
};

/// Threads: the holder of the token, but for allocate(). Outlives the wire where allocated memory does.
class Commons {
 public:
  /// `own` has its directory already.
  Commons(std::shared_ptr<Arena> own, std::vector<Neighbour> neighbours, int self, std::size_t cache_bytes,
          bool moves_threads);

  const ArenaMap& arena(int local) const noexcept {
    return local == self_ ? own_->map() : neighbours_[static_cast<std::size_t>(local)].arena;
  }
  std::shared_ptr<void> allocate(std::size_t bytes) { return own_->allocate(bytes); }

  /// The third-level caches of all these ranks' cores together; 0: unknown.
  std::size_t cache_bytes() const noexcept { return cache_bytes_; }

  /// Whether a thread may be put onto another core than the kernel has chosen.
  bool moves_threads() const noexcept { return moves_threads_; }

  /// Own memory that others may still write to is never handed out again.
  void quarantine(const std::byte* data) noexcept { own_->quarantine(data); }

  bool left(int local) const noexcept {
    return neighbours_[static_cast<std::size_t>(local)].line->left.load(std::memory_order_acquire) != 0;
  }
  pid_t process(int local) const noexcept { return neighbours_[static_cast<std::size_t>(local)].process; }
  bool lives(int local) const noexcept;
  /// After words were posted: wakes those of `locals` that sleep.
  void wake(std::span<const int> locals) const noexcept;

  // ---- slabs

  /// A slab for `group`, all zero, that the others can find. Throws Error{resource}.
  OwnSlab open_slab(std::uint64_t group);
  /// The two rounds' slots of a slab, of so many bytes each. Throws Error{resource}.
  std::byte* open_rounds(OwnSlab& own, std::size_t bytes);
  std::byte* rounds(int local, const Slab& slab) const noexcept { return arena(local).at(slab.rounds); }

  /// `local`'s entry for `group`, if it has made one.
  const DirectoryEntry* find(int local, std::uint64_t group) const noexcept;
  const Word& published(int local) const noexcept { return directory(local).published; }
  const Slab& slab(int local, const DirectoryEntry& entry) const noexcept {
    return *reinterpret_cast<const Slab*>(arena(local).at(entry.slab));
  }

  /// The communicator has ended here. Its slab is freed once no other rank can look at it any more.
  void retire(const OwnSlab& own, std::vector<int> locals);

 private:
  struct Retired {
    OwnSlab own;
    std::uint64_t group;
    std::vector<int> locals;                     // the other members
    std::vector<const DirectoryEntry*> entries;  // theirs, once all are found
  };
  const DirectoryPage& directory(int local) const noexcept {
    return *reinterpret_cast<const DirectoryPage*>(arena(local).at(0));
  }
  DirectoryEntry& free_entry();
  bool can_go(Retired& one) const;
  void sweep();
  void free(const OwnSlab& own) noexcept;
  /// So many bytes that were given back, or of the arena.
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
