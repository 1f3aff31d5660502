// Row: one algorithm for the call that is planned, and what is known of it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "collectives/model/replay.hpp"
#include "tools/plan/counting.hpp"
#include "tools/plan/request.hpp"

namespace tutti::planning {

struct Row {
  const Algorithm* algorithm = nullptr;
  model::Collective call;
  std::optional<double> estimate = {};  ///< seconds, by the closed formula
  Counted counted = {};
  std::optional<model::Outcome> replay = {};
  bool chosen = false;

  /// The counts of the replay, where there is one, or else those of the schedules.
  const model::Counts& counts() const noexcept { return replay ? replay->counts : counted.counts; }
  /// The time of the replay, or else the estimate; nullopt: there is neither.
  std::optional<double> seconds() const noexcept { return replay ? replay->seconds : estimate; }
};

/// Messages that are replayed without --whole: of one algorithm, and of all that are ranked together but the chosen.
inline constexpr std::size_t most_replayed = 3'000'000, most_replayed_of_all = 2'000'000;

/// All algorithms that fit: those with a formula first, by their estimates, then the others by name. One is chosen: the
/// first; where none has a formula, the fastest by replay among those that `most` messages are enough for. No other
/// one is replayed yet, and none is counted.
struct Ranking {
  std::vector<Row> rows;
  bool by_replay = false;  ///< chosen so
  const Row& chosen() const;
};
Ranking rank_all(const Request& request, std::size_t most = most_replayed);

/// The row of one algorithm.
Row row_of(const Request& request, const Algorithm& algorithm);

/// Counts the row, and replays it if that takes at most `most` messages.
void weigh(Row& row, const Request& request, std::size_t most = most_replayed);

/// Weighs all rows, and sorts them by their seconds(). The chosen one is replayed if that takes at most `of_chosen`
/// messages, then those that take fewest, until they are more than `of_others` together.
void weigh_all(Ranking& ranking, const Request& request, std::size_t of_chosen = most_replayed,
               std::size_t of_others = most_replayed_of_all);

/// Why the row has no replay, and how to have one.
std::string why_not_replayed(const Row& row);

model::Bound bound_of(const Request& request);

}  // namespace tutti::planning
