// Footprint: memory and steps of one rank's plans for a call, which is not performed. For tests, tools and benchmarks.
#pragma once

#include <chrono>
#include <cstddef>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/lanes.hpp"

namespace tutti {

/// The memory and the steps of one rank for one call. Bytes include schedules and a v-form's tables. They do not
/// include scratch, whose size is Schedule::scratch().
struct Footprint {
  std::size_t first_bytes = 0;  ///< allocated when the rank's first step has been made
  std::size_t most_bytes = 0;   ///< allocated when its last step has been made: the maximum
  Lanes lanes;                  ///< into which the call is cut
  Tally tally;                  ///< of all lanes together
  std::size_t shortest = 0;     ///< elements of the shortest message in lanes of full length, except signals; 0: none
};

/// Makes all steps of the call once and stores none of them. `width` is the bytes of an element, `lane_bytes` is that
/// of Settings.
Footprint footprint_of(const Algorithm& algorithm, const Shape& shape, std::size_t width = 4,
                       std::size_t lane_bytes = std::size_t{1} << 20);

/// The time from the call of Algorithm::plan until the rank's first step has been made; the minimum of `tries`
/// measurements. Zero if the rank has no step.
std::chrono::nanoseconds time_to_first_step(const Algorithm& algorithm, const Shape& shape, int tries = 5);

}  // namespace tutti
