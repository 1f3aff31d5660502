// Rooms: blocks of a rank's arena for larger calls. A communicator can take over the room of an idle one.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "transports/shm/arena.hpp"

namespace tutti::shm {

/// The user of a room, which knows whether the room is still needed.
class Tenant {
 public:
  /// If no rank of the communicator will access the room any more, releases it and returns true; else returns false.
  virtual bool gives_up(std::size_t room) noexcept = 0;

 protected:
  ~Tenant() = default;
};

/// Rooms of one size. A communicator keeps its room after a call, for its next call. Once `most_kept` rooms are in use,
/// take() first tries to take over the room of an idle communicator, and tidy() returns idle rooms to the system.
/// All functions are called with the progress token (the context's lock) held.
class Rooms {
 public:
  static constexpr std::size_t most_kept = 8;

  Rooms(Arena& arena, std::size_t bytes) : arena_(arena), bytes_(bytes) {}

  /// Returns the offset of a room in the arena; the room is not zeroed. Throws Error{resource}.
  std::size_t take(Tenant& tenant);
  /// Forgets `tenant`, which ends. Its room, if it has one, stays in use until put_back().
  void leave(const Tenant& tenant) noexcept;
  /// Takes back a room that no rank accesses any more.
  void put_back(std::size_t room) noexcept;

  /// Returns rooms beyond `most_kept` to the system, if they are idle.
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
  std::list<Lease> let_;  // rooms in use; take_from_idle() tries them from the front
  std::vector<std::size_t> empty_;
};

}  // namespace tutti::shm
