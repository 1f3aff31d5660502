// Footprint: see footprint.hpp.
#include "collectives/plan/footprint.hpp"

#include <algorithm>

#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Tally tallied(const Tally& a, const Tally& b, std::size_t of_b) {
  return {a.rounds + of_b * b.rounds, a.steps + of_b * b.steps, a.messages + of_b * b.messages,
          a.elements + of_b * b.elements};
}

std::size_t table_bytes(const Shape& shape) {
  std::size_t bytes = 0;
  for (const BlockTable* table : {shape.in_blocks, shape.out_blocks})
    if (table != nullptr) bytes += table->bytes();
  return bytes;
}

/// The length of the shorter of two messages; 0 stands for no message.
std::size_t shorter(std::size_t a, std::size_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

std::size_t shortest_message(const Schedule& plan) {
  std::size_t shortest = 0;
  for (int i = 0; i < plan.rounds(); ++i)
    plan.play(i, [&](const Step& step) {
      if (step.verb != Step::Verb::send || step.signal) return;
      shortest = shorter(shortest, step.slice.count);
    });
  return shortest;
}

}  // namespace

Footprint footprint_of(const Algorithm& algorithm, const Shape& shape, std::size_t width, std::size_t lane_bytes) {
  Footprint found;
  const bool is_variable = shape.in_blocks != nullptr || shape.out_blocks != nullptr;
  found.lanes = is_variable ? Lanes{1, shape.count} : lanes_of(algorithm, shape, width, lane_bytes);
  const std::size_t rest = shape.count - (found.lanes.number - 1) * found.lanes.count;  // elements of the last lane
  const bool is_whole = rest == found.lanes.count;
  const std::size_t whole = found.lanes.number - (is_whole ? 0 : 1);  // number of lanes of full length
  const std::size_t ways = std::min(static_cast<std::size_t>(ways_of(algorithm, shape)), found.lanes.number);
  found.most_bytes = table_bytes(shape);
  Shape lane = shape;
  lane.count = found.lanes.count;
  for (std::size_t way = 0; way < std::min(ways, whole); ++way) {
    lane.way = static_cast<int>(way);
    const Schedule plan = algorithm.plan(lane);
    found.most_bytes += plan.bytes();
    if (way == 0) found.first_bytes = found.most_bytes;
    found.shortest = shorter(found.shortest, shortest_message(plan));
    found.tally = tallied(found.tally, tally(plan), (whole - way + ways - 1) / ways);
  }
  if (is_whole) return found;
  lane.count = rest;
  lane.way = static_cast<int>(whole % ways);
  const Schedule plan = algorithm.plan(lane);
  found.tally = tallied(found.tally, tally(plan), 1);
  found.most_bytes += plan.bytes();
  return found;
}

std::chrono::nanoseconds time_to_first_step(const Algorithm& algorithm, const Shape& shape, int tries) {
  using Clock = std::chrono::steady_clock;
  Clock::duration least = Clock::duration::max();
  for (int i = 0; i < tries; ++i) {
    const Clock::time_point begin = Clock::now();
    Clock::time_point first = begin;
    const Schedule plan = algorithm.plan(shape);
    for (int round = 0; round < plan.rounds() && first == begin; ++round)
      plan.play(round, [&](const Step&) {
        if (first == begin) first = Clock::now();
      });
    least = std::min(least, first - begin);
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(least);
}

}  // namespace tutti
