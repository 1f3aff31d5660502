// Footprint: what planning costs the rank that plays, counted without playing anything. For tests, tools, benchmarks.
#pragma once

#include <chrono>
#include <cstddef>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/lanes.hpp"

namespace tutti {

/// What one rank holds and does for one call. Bytes are those of schedules and of a v-form's tables; a call's scratch
/// is Schedule::scratch().
struct Footprint {
  std::size_t first_bytes = 0;  ///< held until the rank's first step has been made
  std::size_t most_bytes = 0;   ///< the most held until its last one
  Lanes lanes;                  ///< into which the call is cut
  Tally tally;                  ///< of all lanes together
  std::size_t shortest = 0;     ///< elements of the shortest message of a whole lane that has elements; 0: none
};

/// Makes all steps of the call once, without keeping them. `width` is the bytes of an element, `lane_bytes` as in the
/// settings.
Footprint footprint_of(const Algorithm& algorithm, const Shape& shape, std::size_t width = 4,
                       std::size_t lane_bytes = std::size_t{1} << 20);

/// The time from asking for the plan until the rank's first step has been made; the least of `tries`. Zero if the rank
/// has no step.
std::chrono::nanoseconds time_to_first_step(const Algorithm& algorithm, const Shape& shape, int tries = 5);

}  // namespace tutti
