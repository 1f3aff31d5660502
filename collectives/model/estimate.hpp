// Estimate: the time of a call by closed formulas, in constant time for any number of ranks; and the choice by it.
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

/// As Settings has it.
inline constexpr std::size_t default_max_lanes = 4;

/// The time of a call cut into these lanes, of which a rank plays `at_once` at a time: that of the first lane, by the
/// algorithm's formula, and for each other one what it adds to the busiest link or rank. nullopt if the algorithm has
/// no formula.
std::optional<double> estimate(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Lanes& lanes,
                               const Network& network, std::size_t at_once = default_max_lanes);

/// No lane is made for less than this.
inline constexpr std::size_t least_piece = std::size_t{4} << 10;

/// As Settings has them, and the least that a lane is made for.
struct Limits {
  std::size_t lane_bytes = std::size_t{1} << 20;
  std::size_t max_lanes = default_max_lanes;
  std::size_t least = least_piece;
  std::size_t at_once(std::size_t piece) const noexcept { return lanes_at_once(piece, lane_bytes, max_lanes); }
};

Limits limits_of(const Settings& settings) noexcept;

/// The bytes of a lane, as lanes_of() takes them, for which the estimate is least: `limits.lane_bytes` divided by a
/// power of two, at least `limits.least`.
std::size_t best_piece(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Network& network,
                       const Limits& limits = {});

struct Candidate {
  const Algorithm* algorithm = nullptr;
  std::size_t piece = 0;  ///< by best_piece()
  Lanes lanes;
  std::size_t at_once = default_max_lanes;  ///< lanes
  double seconds = 0;                       ///< by estimate()
};
/// All algorithms of the kind that fit the shape and have a formula, the fastest first; of those as fast but for a
/// hundredth, that whose messages take the busiest rank the least time, or, where they take all of them little, the
/// fastest by replay. The same on all ranks.
std::vector<Candidate> rank_algorithms(Kind kind, const Shape& shape, std::size_t width, const Network& network,
                                       const Limits& limits = {});

/// Times that no algorithm can be below, in seconds. `seconds` is the largest.
struct Bound {
  double latency = 0;    ///< for news of every rank to reach every other, or the root
  double bandwidth = 0;  ///< bytes that must enter or leave a host or a rank
  double fold = 0;       ///< bytes that one rank must fold
  double seconds = 0;
};
Bound lower_bound(Kind kind, const Shape& shape, std::size_t width, const Network& network);

}  // namespace tutti::model
