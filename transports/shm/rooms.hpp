// Rooms: the memory of larger calls in a rank's arena, which its communicators take from one another.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "transports/shm/arena.hpp"

namespace tutti::shm {

/// Has a room, and tells when it needs it no more.
class Tenant {
 public:
  /// Gives the room up if no rank of the communicator will access it any more; true if it did.
  virtual bool gives_up(std::size_t room) noexcept = 0;

 protected:
  ~Tenant() = default;
};

/// Rooms of one size. A communicator keeps its room after the call, for the next one; beyond `most_kept` rooms, new
/// ones are taken from communicators that are idle, and idle ones are given back to the system. Threads: the holder of
/// the progress token.
class Rooms {
 public:
  static constexpr std::size_t most_kept = 8;

  Rooms(Arena& arena, std::size_t bytes) : arena_(arena), bytes_(bytes) {}

  /// A room's offset in the arena; not zeroed. Throws Error{resource}.
  std::size_t take(Tenant& tenant);
  /// `tenant` ends. Its room, if it has one, stays in use until put_back().
  void leave(const Tenant& tenant) noexcept;
  /// A room that nobody accesses any more.
  void put_back(std::size_t room) noexcept;

  /// Gives back what is more than `most_kept`, as far as it is idle.
  void tidy() noexcept {
    if (let_.size() + empty_.size() > most_kept) shrink();
  }

 private:
  struct Lease {
    Tenant* tenant;
    std::size_t room;
  };
  std::size_t take_from_idle() noexcept;
  void shrink() noexcept;

  Arena& arena_;
  const std::size_t bytes_;
  std::list<Lease> let_;  // the longest first
  std::vector<std::size_t> empty_;
};

}  // namespace tutti::shm
