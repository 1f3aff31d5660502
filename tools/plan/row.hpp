// Row: one algorithm for the planned call, with its results. A replay simulates all messages on a model of the network.
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
  std::optional<double> estimate = {};  ///< seconds by the closed formula; nullopt if the algorithm has none
  Counted counted = {};
  std::optional<model::Outcome> replay = {};
  bool chosen = false;

  /// Returns the counts of the replay if there is one, otherwise those of the schedules.
  const model::Counts& counts() const noexcept { return replay ? replay->counts : counted.counts; }
  /// Returns the time of the replay, otherwise the estimate; nullopt if there is neither.
  std::optional<double> seconds() const noexcept { return replay ? replay->seconds : estimate; }
};

/// The largest numbers of messages that are replayed without --whole: of one algorithm; and of all ranked algorithms
/// together, without the chosen one.
inline constexpr std::size_t most_replayed = 3'000'000, most_replayed_of_all = 2'000'000;

/// All algorithms that fit the call: first those with a formula, by their estimates, then the others by name. The first
/// is chosen, and nothing is counted or replayed yet. If none has a formula, rank_all() counts all rows and replays
/// those with at most `most` messages; then the fastest of these is chosen, or the first row if there are none.
struct Ranking {
  std::vector<Row> rows;
  bool by_replay = false;  ///< true: the choice was made by replay
  const Row& chosen() const;
};
Ranking rank_all(const Request& request, std::size_t most = most_replayed);

/// Returns the row of one algorithm.
Row row_of(const Request& request, const Algorithm& algorithm);

/// Counts the messages of the row, and replays it if there are at most `most`.
void weigh(Row& row, const Request& request, std::size_t most = most_replayed);

/// Weighs all rows, and sorts them by their seconds(). Replays the chosen row if it has at most `of_chosen` messages,
/// then the rows with the fewest messages, as long as these have at most `of_others` messages together.
void weigh_all(Ranking& ranking, const Request& request, std::size_t of_chosen = most_replayed,
               std::size_t of_others = most_replayed_of_all);

/// The text of a row that was only counted: how many messages it has, and that --whole simulates (replays) it anyway.
std::string why_not_replayed(const Row& row);

model::Bound bound_of(const Request& request);

}  // namespace tutti::planning
