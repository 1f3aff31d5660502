// Lanes: the division of a buffer into parts that play the same schedule independently of one another.
#pragma once

#include <cstddef>

#include "collectives/plan/algorithm.hpp"

namespace tutti {

/// Each block of a buffer (the buffer itself, for kinds without blocks) is cut into `number` parts: lane i has elements
/// [i * count, (i + 1) * count) of each block; the last lane has the remaining elements.
struct Lanes {
  std::size_t number = 1;
  std::size_t count = 0;
  bool operator==(const Lanes&) const = default;
};

/// How many lanes of `piece` bytes a rank plays at a time: together they have the bytes of `max_lanes` lanes of
/// `lane_bytes`. Shorter messages fill a link only if more are in flight. `piece` 0 stands for `lane_bytes`.
constexpr std::size_t lanes_at_once(std::size_t piece, std::size_t lane_bytes, std::size_t max_lanes) noexcept {
  constexpr std::size_t most = 32;  // the result is at most 32, but at least max_lanes
  const std::size_t by_bytes = max_lanes * (piece == 0 ? 1 : lane_bytes / piece);
  return by_bytes <= max_lanes || max_lanes >= most ? max_lanes : by_bytes < most ? by_bytes : most;
}

/// How many of `number` lanes a rank plays at a time, at most `at_once`. `ways` is the number of schedules that lanes
/// use in turn. If it is more than 1 and not all lanes run at a time, the result k is even (or 1), so half of the lanes
/// use one tree, half the other. Lane i + k then starts when lane i has ended; it uses the same or a similar schedule,
/// so a slow schedule does not delay the others. With one way, the next lane that has not started starts.
constexpr std::size_t lanes_in_play(std::size_t number, std::size_t at_once, std::size_t ways) noexcept {
  if (number <= at_once) return number;
  return ways == 1 || at_once == 1 ? at_once : at_once - at_once % 2;
}

/// The number of elements of the last lane, if a block has `count` elements.
constexpr std::size_t rest_of(const Lanes& lanes, std::size_t count) noexcept {
  const std::size_t others = (lanes.number - 1) * lanes.count;
  return count > others ? count - others : 0;
}

/// A message of a lane has at least this many bytes, unless its whole block or chunk has fewer. Without this limit, a
/// call on many ranks would send too many short messages, because each rank gets a small part of a lane. 8 KiB if
/// lane_bytes is 1 MiB.
constexpr std::size_t least_message(std::size_t lane_bytes) noexcept { return lane_bytes / 128; }

/// The lanes of a call, each of about `lane_bytes` bytes over all blocks, and long enough that no message is shorter
/// than least_message(). `width` is the bytes of an element. One lane for algorithms whose slices cross blocks. Ignores
/// shape.in_blocks and shape.out_blocks: callers play a v-form in one lane. The same on all ranks.
Lanes lanes_of(const Algorithm& algorithm, const Shape& shape, std::size_t width, std::size_t lane_bytes);

}  // namespace tutti
