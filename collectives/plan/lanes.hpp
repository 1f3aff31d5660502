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

/// A message of a lane has at least this many bytes, unless its block or chunk has fewer: else a call on many ranks,
/// of which each gets a small part of a lane, would send more messages than bytes make worth their while. 8 KiB where
/// lane_bytes is 1 MiB.
constexpr std::size_t least_message(std::size_t lane_bytes) noexcept { return lane_bytes / 128; }

/// The lanes of a call: about `lane_bytes` bytes in each, counting all its blocks, but none whose messages would be
/// shorter than least_message(). `width` is the bytes of an element. One lane for v-forms, and for algorithms whose
/// slices cross blocks. The same on all ranks.
Lanes lanes_of(const Algorithm& algorithm, const Shape& shape, std::size_t width, std::size_t lane_bytes);

}  // namespace tutti
