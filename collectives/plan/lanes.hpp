// Lanes: how many parts of a buffer play the same schedule, one beside the other.
#pragma once

#include <cstddef>

#include "collectives/plan/algorithm.hpp"

namespace tutti {

/// Each block of a buffer (the buffer itself, for kinds without blocks) is cut into `number` parts: lane i has elements
/// [i * count, (i + 1) * count) of each, the last lane those that remain.
struct Lanes {
  std::size_t number = 1;
  std::size_t count = 0;
  bool operator==(const Lanes&) const = default;
};

/// How many lanes of `piece` bytes a rank plays at a time: as many bytes as in `max_lanes` of `lane_bytes`, since
/// shorter messages fill a link only if more of them are on their way.
constexpr std::size_t lanes_at_once(std::size_t piece, std::size_t lane_bytes, std::size_t max_lanes) noexcept {
  constexpr std::size_t most = 32;  // but no fewer than max_lanes
  const std::size_t by_bytes = max_lanes * (piece == 0 ? 1 : lane_bytes / piece);
  return by_bytes <= max_lanes || max_lanes >= most ? max_lanes : by_bytes < most ? by_bytes : most;
}

/// How many of `number` lanes a rank plays at a time, `at_once` at most. Where they go several ways and not all at a
/// time, it is an even number: half of them along one tree, half along the other. When one of k lanes has ended, the
/// lane k after it begins in its place, which goes the same way or a similar one: so a way that is late on this rank
/// keeps no other waiting. With one way, the next lane begins.
constexpr std::size_t lanes_in_play(std::size_t number, std::size_t at_once, std::size_t ways) noexcept {
  if (number <= at_once) return number;
  return ways == 1 || at_once == 1 ? at_once : at_once - at_once % 2;
}

/// The elements of the last lane of `count`.
constexpr std::size_t rest_of(const Lanes& lanes, std::size_t count) noexcept {
  const std::size_t others = (lanes.number - 1) * lanes.count;
  return count > others ? count - others : 0;
}

/// A message of a lane has at least this many bytes, unless its block or chunk has fewer: else a call on many ranks,
/// of which each gets a small part of a lane, would send more messages than bytes make worth their while. 8 KiB where
/// lane_bytes is 1 MiB.
constexpr std::size_t least_message(std::size_t lane_bytes) noexcept { return lane_bytes / 128; }

/// The lanes of a call: about `lane_bytes` bytes in each, counting all its blocks, but none whose messages would be
/// shorter than least_message(). `width` is the bytes of an element. One lane for v-forms, and for algorithms whose
/// slices cross blocks. The same on all ranks.
Lanes lanes_of(const Algorithm& algorithm, const Shape& shape, std::size_t width, std::size_t lane_bytes);

}  // namespace tutti
