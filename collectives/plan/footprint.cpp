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

std::size_t shortest_message(const Schedule& plan) {
  std::size_t shortest = 0;
  for (int i = 0; i < plan.rounds(); ++i)
    plan.play(i, [&](const Step& step) {
      if (step.verb != Step::Verb::send || step.signal) return;
      shortest = shortest == 0 ? step.slice.count : std::min(shortest, step.slice.count);
    });
  return shortest;
}

}  // namespace

Footprint footprint_of(const Algorithm& algorithm, const Shape& shape, std::size_t width, std::size_t lane_bytes) {
  Footprint found;
  const bool is_variable = shape.in_blocks != nullptr || shape.out_blocks != nullptr;
  found.lanes = is_variable ? Lanes{1, shape.count} : lanes_of(algorithm, shape, width, lane_bytes);
  Shape lane = shape;
  lane.count = found.lanes.count;
  const Schedule whole = algorithm.plan(lane);
  found.first_bytes = found.most_bytes = table_bytes(shape) + whole.bytes();
  found.shortest = shortest_message(whole);
  lane.count = shape.count - (found.lanes.number - 1) * found.lanes.count;
  if (lane.count == found.lanes.count) {
    found.tally = tallied({}, tally(whole), found.lanes.number);
    return found;
  }
  const Schedule rest = algorithm.plan(lane);
  found.tally = tallied(tally(rest), tally(whole), found.lanes.number - 1);
  found.most_bytes += rest.bytes();
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
