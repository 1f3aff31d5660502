#include "tools/plan/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/plan/page.hpp"
#include "tools/plan/text.hpp"

namespace tutti::planning {
namespace {

constexpr std::size_t most_swept = 1'000'000;  // the most messages replayed for one value, which takes seconds

std::vector<std::size_t> values_of(const Request& request) {
  std::vector<std::size_t> values;
  if (request.sweep == "bytes") {
    for (std::size_t bytes = 8; bytes < (std::size_t{256} << 20); bytes *= 4) values.push_back(bytes);
    values.push_back(std::size_t{256} << 20);
    return values;
  }
  const auto most = static_cast<std::size_t>(request.sweep == "hosts" ? request.hosts->count() : request.shape.size);
  for (std::size_t value = request.sweep == "hosts" ? 1 : 2; value < most; value *= 2) values.push_back(value);
  values.push_back(most);
  return values;
}

/// Returns the request for one value of the sweep.
Request at(const Request& request, std::size_t value) {
  if (request.sweep == "bytes") return with_bytes(request, value);
  const int hosts = request.hosts->count(), number = static_cast<int>(value);
  if (request.sweep == "ranks") return with_ranks(request, number, std::min(hosts, number));
  const std::int64_t ranks = std::int64_t{request.shape.size} * number / hosts;
  return with_ranks(request, static_cast<int>(std::max<std::int64_t>(ranks, number)), number);
}

}  // namespace

Sweep sweep(const Request& request) {
  Sweep found{.axis = request.sweep,
              .values = values_of(request),
              .lines = {},
              .chosen = {},
              .by_replay = request.by_replay,
              .bounds = {}};
  for (const std::string_view name : algorithms_of(request.kind))
    found.lines.push_back({name, std::vector<Sweep::Cell>(found.values.size())});
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    const Request point = at(request, found.values[i]);
    Ranking ranking = rank_all(point, most_swept);
    if (found.by_replay) weigh_all(ranking, point, most_swept, most_swept);
    for (Row& row : ranking.rows) {
      if (!row.estimate && row.counted.played == 0) weigh(row, point, most_swept);
      const auto line = std::ranges::find(found.lines, row.algorithm->name, &Sweep::Line::algorithm);
      const bool replayed = row.replay && (found.by_replay || !row.estimate);
      line->cells[i] = {replayed ? row.replay->seconds : row.estimate, replayed};
      if (row.chosen) found.chosen.push_back(static_cast<std::size_t>(line - found.lines.begin()));
    }
    found.bounds.push_back(bound_of(point).seconds);
  }
  return found;
}

std::string value_text(const Sweep& sweep, std::size_t value) {
  return sweep.axis == "bytes" ? bytes_text(value) : count_text(value);
}

namespace {

/// Returns the chosen algorithm's time divided by the least replay; "-" if it has no replay.
std::string chosen_by_best(const Sweep& sweep, std::size_t i) {
  const Sweep::Cell& chosen = sweep.lines[sweep.chosen[i]].cells[i];
  if (!chosen.seconds || !chosen.replayed) return "-";
  double best = *chosen.seconds;
  for (const Sweep::Line& line : sweep.lines)
    if (line.cells[i].replayed) best = std::min(best, *line.cells[i].seconds);
  return best > 0 ? ratio_text(*chosen.seconds / best) : "-";
}

void print_legend(const Sweep& sweep) {
  bool any_other = false, any_missing = false;
  for (const Sweep::Line& line : sweep.lines)
    for (const Sweep::Cell& cell : line.cells) {
      any_other |= cell.seconds && cell.replayed != sweep.by_replay;
      any_missing |= !cell.seconds;
    }
  fmt::print("\n{}; * chosen, by estimates{}{}\n", sweep.by_replay ? "Replays" : "Estimates",
             !any_other        ? ""
             : sweep.by_replay ? "; ' estimated, as there are too many messages (--whole: replayed)"
                               : "; ' replayed, for want of a formula",
             any_missing ? "; - does not fit" : "");
}

}  // namespace

void print_sweep(const Request& request, const Sweep& sweep) {
  print_call(request);
  fmt::print("\n{:>9}", sweep.axis);
  const auto width = [](const Sweep::Line& line) { return std::max<std::size_t>(line.algorithm.size(), 9) + 1; };
  for (const Sweep::Line& line : sweep.lines) fmt::print(" {:>{}}", line.algorithm, width(line));
  fmt::print("     bound{}  chosen\n", sweep.by_replay ? "  chosen / best" : "");
  for (std::size_t i = 0; i < sweep.values.size(); ++i) {
    fmt::print("{:>9}", value_text(sweep, sweep.values[i]));
    for (std::size_t k = 0; k < sweep.lines.size(); ++k) {
      const Sweep::Cell& cell = sweep.lines[k].cells[i];
      const std::string mark = cell.replayed == sweep.by_replay ? " " : "'";
      const std::string text = cell.seconds ? time_text(*cell.seconds) + mark : "- ";
      fmt::print(" {:>{}}", (k == sweep.chosen[i] ? "*" : "") + text, width(sweep.lines[k]));
    }
    fmt::print(" {:>9}", time_text(sweep.bounds[i]));
    if (sweep.by_replay) fmt::print(" {:>14}", chosen_by_best(sweep, i));
    fmt::print("  {}\n", sweep.lines[sweep.chosen[i]].algorithm);
  }
  print_legend(sweep);
}

}  // namespace tutti::planning
