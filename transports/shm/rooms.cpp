#include "transports/shm/rooms.hpp"

#include <algorithm>
#include <iterator>

namespace tutti::shm {
namespace {

constexpr std::size_t none = 0;          // not the offset of a room: the directory is there
constexpr int most_asked = 16;           // tenants that are asked for their room before a new room is allocated
constexpr std::size_t most_shrunk = 64;  // calls of take_from_idle() in one shrink()

}  // namespace

// Asks tenants to give up their room, from the front of let_. A tenant that needs its room moves to the end.
std::size_t Rooms::take_from_idle() noexcept {
  for (int asked = 0; asked < most_asked && !let_.empty(); ++asked) {
    const auto [tenant, room] = let_.front();
    if (tenant->gives_up(room)) {
      let_.pop_front();
      return room;
    }
    let_.splice(let_.end(), let_, let_.begin());
  }
  return none;
}

std::size_t Rooms::take(Tenant& tenant) {
  if (const std::size_t all = let_.size() + empty_.size() + 1; all > empty_.capacity())
    empty_.reserve(2 * all);  // so that put_back() does not allocate
  std::size_t room = none;
  if (!empty_.empty()) {
    room = empty_.back();
    empty_.pop_back();
  } else if (let_.size() >= most_kept) {
    room = take_from_idle();
  }
  if (room == none) room = arena_.take(bytes_);
  try {
    let_.push_back({&tenant, room});
  } catch (...) {
    arena_.give_back(room);
    throw;
  }
  return room;
}

void Rooms::leave(const Tenant& tenant) noexcept {
  std::erase_if(let_, [&](const Lease& lease) { return lease.tenant == &tenant; });
}

void Rooms::put_back(std::size_t room) noexcept {
  if (let_.size() + empty_.size() < most_kept && empty_.size() < empty_.capacity())
    empty_.push_back(room);
  else
    arena_.give_back(room);
}

void Rooms::shrink() noexcept {
  std::size_t surplus = let_.size() + empty_.size() - most_kept;
  for (; surplus > 0 && !empty_.empty(); --surplus) {
    arena_.give_back(empty_.back());
    empty_.pop_back();
  }
  for (std::size_t asked = std::min(let_.size(), most_shrunk); surplus > 0 && asked > 0; --asked) {
    const std::size_t room = take_from_idle();
    if (room == none) return;
    arena_.give_back(room);
    --surplus;
  }
}

}  // namespace tutti::shm
