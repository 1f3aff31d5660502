#include "tools/plan/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/plan/text.hpp"
#include "transports/core/layout.hpp"

namespace tutti::planning {
namespace {

/// How many steps are counted for each message that may be replayed: a send, its receive, and some local steps.
constexpr std::size_t steps_a_message = 5;

model::Collective call_of(const Request& request, const Algorithm& algorithm, const Lanes& lanes, std::size_t at_once) {
  return {
      .algorithm = &algorithm, .shape = request.shape, .width = request.width(), .lanes = lanes, .max_lanes = at_once};
}

/// Returns the call, cut into as many lanes as the request asks for, or into those with the least estimated time.
model::Collective cut_call(const Request& request, const Algorithm& algorithm) {
  const Shape& shape = request.shape;
  const std::size_t width = request.width();
  if (request.lanes == 0) {
    const std::size_t piece = model::best_piece(algorithm, shape, width, request.network, request.limits);
    return call_of(request, algorithm, lanes_of(algorithm, shape, width, piece), request.limits.at_once(piece));
  }
  Lanes lanes{1, shape.count};
  if (algorithm.lanes && shape.count > 0) {
    lanes.count = (shape.count + request.lanes - 1) / request.lanes;
    lanes.number = (shape.count + lanes.count - 1) / lanes.count;
  }
  const std::size_t blocks = std::max(blocks_in(request.kind, shape.size), blocks_out(request.kind, shape.size));
  return call_of(request, algorithm, lanes, request.limits.at_once(lanes.count * width * blocks));
}

void choose_by_replay(Ranking& ranking, const Request& request, std::size_t most) {
  ranking.by_replay = true;
  Row* best = nullptr;
  for (Row& row : ranking.rows) {
    weigh(row, request, most);
    if (row.replay && (best == nullptr || row.replay->seconds < best->replay->seconds)) best = &row;
  }
  (best == nullptr ? ranking.rows.front() : *best).chosen = true;
}

}  // namespace

const Row& Ranking::chosen() const {
  return *std::ranges::find_if(rows, [](const Row& row) { return row.chosen; });
}

Row row_of(const Request& request, const Algorithm& algorithm) {
  Row row{.algorithm = &algorithm, .call = cut_call(request, algorithm)};
  row.estimate =
      model::estimate(algorithm, request.shape, row.call.width, row.call.lanes, request.network, row.call.max_lanes);
  return row;
}

Ranking rank_all(const Request& request, std::size_t most) {
  Ranking ranking;
  const auto ranked =
      model::rank_algorithms(request.kind, request.shape, request.width(), request.network, request.limits);
  for (const model::Candidate& candidate : ranked) {
    if (request.lanes != 0) {
      ranking.rows.push_back(row_of(request, *candidate.algorithm));
      continue;
    }
    ranking.rows.push_back({.algorithm = candidate.algorithm, .call = {}, .estimate = candidate.seconds});
    ranking.rows.back().call = call_of(request, *candidate.algorithm, candidate.lanes, candidate.at_once);
  }
  if (request.lanes != 0) std::ranges::stable_sort(ranking.rows, {}, [](const Row& row) { return *row.estimate; });
  for (const Algorithm* algorithm : catalog()) {
    const bool fits = algorithm->kind == request.kind && (algorithm->fits == nullptr || algorithm->fits(request.shape));
    const auto is_ranked = [&](const model::Candidate& candidate) { return candidate.algorithm == algorithm; };
    if (fits && std::ranges::none_of(ranked, is_ranked)) ranking.rows.push_back(row_of(request, *algorithm));
  }
  if (!ranked.empty())
    ranking.rows.front().chosen = true;
  else
    choose_by_replay(ranking, request, most);
  return ranking;
}

void weigh(Row& row, const Request& request, std::size_t most) {
  if (row.replay) return;
  if (row.counted.played == 0 || !row.counted.whole)
    row.counted = count(row.call, request.whole ? std::numeric_limits<std::size_t>::max() : steps_a_message * most);
  if (request.whole || (row.counted.whole && row.counted.played <= most))
    row.replay = model::replay(row.call, request.network);
}

void weigh_all(Ranking& ranking, const Request& request, std::size_t of_chosen, std::size_t of_others) {
  std::vector<Row>& rows = ranking.rows;
  for (Row& row : rows)
    if (!request.whole && !row.replay) row.counted = count(row.call, steps_a_message * of_others);
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.chosen ? 0 : row.counted.played; });
  for (Row& row : rows) {
    weigh(row, request, row.chosen ? of_chosen : of_others);
    if (row.replay && !row.chosen) of_others -= std::min(of_others, row.counted.played);
  }
  std::ranges::stable_sort(
      rows, {}, [](const Row& row) { return row.seconds().value_or(std::numeric_limits<double>::infinity()); });
}

std::string why_not_replayed(const Row& row) {
  const std::string messages = (row.counted.whole ? "" : "more than ") + count_text(row.counted.played);
  const double seconds = 4e-6 * static_cast<double>(row.counted.played);  // measured with many ranks
  return fmt::format("not replayed: {} messages{}; --whole replays them, in about {} s", messages,
                     row.counted.by_alike ? " of one host, as all do the same," : "",
                     count_text(static_cast<std::size_t>(std::ceil(seconds))));
}

model::Bound bound_of(const Request& request) {
  return model::lower_bound(request.kind, request.shape, request.width(), request.network);
}

}  // namespace tutti::planning
