// Estimate: the time of a call by formulas, computed in constant time for any number of ranks; the choice by this time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collectives/model/network.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/lanes.hpp"
#include "tutti/settings.hpp"

namespace tutti::model {

/// The default of Settings::max_lanes.
inline constexpr std::size_t default_max_lanes = 4;

/// The time in seconds of a call that is cut into `lanes`, of which a rank plays `at_once` at a time. It is the time of
/// the first lane by Algorithm::expense, plus the time that the other lanes add on the busiest link or rank. `width` is
/// the bytes of an element. nullopt if the algorithm has no `expense`.
std::optional<double> estimate(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Lanes& lanes,
                               const Network& network, std::size_t at_once = default_max_lanes);

/// The default of Limits::least, in bytes.
inline constexpr std::size_t least_piece = std::size_t{4} << 10;

/// Limits for the choice of lanes. `lane_bytes` and `max_lanes`: as in Settings. `least`: the least bytes of a lane.
struct Limits {
  std::size_t lane_bytes = std::size_t{1} << 20;
  std::size_t max_lanes = default_max_lanes;
  std::size_t least = least_piece;
  std::size_t at_once(std::size_t piece) const noexcept { return lanes_at_once(piece, lane_bytes, max_lanes); }
};

Limits limits_of(const Settings& settings) noexcept;

/// The value of `lane_bytes` for lanes_of() with the least estimate: `limits.lane_bytes` divided by a power of two, at
/// least `limits.least`. A smaller value is preferred only if its estimate is more than 2 % less.
std::size_t best_piece(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Network& network,
                       const Limits& limits = {});

struct Candidate {
  const Algorithm* algorithm = nullptr;
  std::size_t piece = 0;  ///< by best_piece()
  Lanes lanes;
  std::size_t at_once = default_max_lanes;  ///< lanes that a rank plays at a time
  double seconds = 0;                       ///< by estimate()
};
/// All algorithms of the kind that fit the shape and have an `expense`, in the order of their estimates. Among those at
/// most 1 % above the least estimate, the first is the one whose messages take the least processor time on the busiest
/// rank. Times below 5 % of the estimate count as equal; then a replay (replay.hpp) decides. The same on all ranks.
std::vector<Candidate> rank_algorithms(Kind kind, const Shape& shape, std::size_t width, const Network& network,
                                       const Limits& limits = {});

/// Lower bounds of the time of any algorithm, in seconds. `seconds` is the largest of the three.
struct Bound {
  double latency = 0;    ///< for a message of any rank to reach all other ranks, or the root
  double bandwidth = 0;  ///< bytes that must enter or leave a host or a rank
  double fold = 0;       ///< bytes that one rank must fold
  double seconds = 0;
};
Bound lower_bound(Kind kind, const Shape& shape, std::size_t width, const Network& network);

}  // namespace tutti::model
