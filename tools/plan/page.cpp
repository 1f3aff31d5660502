#include "tools/plan/page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/plan/geometry.hpp"
#include "tools/plan/text.hpp"
#include "tutti/status.hpp"

namespace tutti::planning {
namespace {

std::string racks_text(const Hosts& hosts) {
  const Hosts* const racks = hosts.above();
  if (racks == nullptr) return {};
  const std::string sizes = racks->is_cartesian() ? std::to_string(racks->largest())
                                                  : fmt::format("{} to {}", racks->smallest(), racks->largest());
  return fmt::format(", in {} racks of {} hosts", count_text(static_cast<std::size_t>(racks->count())), sizes);
}

std::string hosts_text(const Request& request) {
  const Hosts& hosts = *request.hosts;
  if (hosts.count() == 1) return "on one host";
  const std::string sizes = hosts.is_cartesian() ? std::to_string(hosts.largest())
                                                 : fmt::format("{} to {}", hosts.smallest(), hosts.largest());
  return fmt::format("on {} hosts of {}, in {}{}", count_text(static_cast<std::size_t>(hosts.count())), sizes,
                     request.layout.order == Layout::Order::turns ? "turns" : "blocks", racks_text(hosts));
}

std::string titled(const Request& request, const std::string& bytes, const std::string& ranks,
                   const std::string& hosts) {
  const std::string root = request.shape.root != 0 ? fmt::format(", root {}", request.shape.root) : "";
  if (request.kind == Kind::barrier) return fmt::format("barrier, {} {}", ranks, hosts);
  return fmt::format("{} of {}, {} {}{}", name(request.kind), bytes, ranks, hosts, root);
}

std::string lanes_text(const Request& request, const Row& row) {
  const auto [number, each] = row.call.lanes;
  if (number == 1) return "1, the whole buffer";
  const std::size_t at_once = row.call.at_once();
  return fmt::format("{} of {}{}, {} at a time", count_text(number), bytes_text(each * row.call.width),
                     request.has_blocks() ? " of each block" : "", at_once == number ? "all" : count_text(at_once));
}

void print_reason(const Row& row, const Ranking& ranking, bool one_host) {
  std::string others;
  int named = 0;
  for (const Row& other : ranking.rows) {
    const auto seconds = ranking.by_replay ? other.seconds() : other.estimate;
    if (other.algorithm == row.algorithm || !seconds || ++named > 3) continue;
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", other.algorithm->name, time_text(*seconds));
  }
  const auto mine = ranking.by_replay ? row.seconds() : row.estimate;
  if (!mine) {
    fmt::print("chosen     as the first by name: no algorithm has a formula, and replays are too long\n");
    return;
  }
  fmt::print("chosen     {} {}{}{}\n", ranking.by_replay ? "no formula yet; replayed" : "estimated", time_text(*mine),
             others.empty() ? "; nothing else to choose from" : "; the next: ", others);
  if (!ranking.by_replay && one_host)
    fmt::print(
        "           by the model; a job on one host takes tuned rules or shm's engines: TUTTI_EXPLAIN=on says which\n");
}

void print_rule(const Request& request) {
  if (!request.rule.empty())
    fmt::print("rules      {} comes before this choice in a job; --algorithm shows another one\n", request.rule);
}

void print_counted(const Row& row) {
  const model::Counts& counts = row.counts();
  const std::string chain =
      row.replay ? fmt::format("; the longest chain has {}", plural(static_cast<std::size_t>(counts.chain), "message"))
                 : "";
  fmt::print("rounds     {} of a rank in a lane{}\n", count_text(static_cast<std::size_t>(counts.rounds)), chain);
  const bool racks = hosts_of(row.call.shape).above() != nullptr;
  const auto beyond = [&](const std::string& what) { return racks ? fmt::format(", {} beyond racks", what) : ""; };
  fmt::print("messages   {}: {} within hosts, {} between{}; at most {} of one rank\n", count_text(messages_of(counts)),
             count_text(counts.messages[0]), count_text(counts.messages[1]), beyond(count_text(counts.messages[2])),
             count_text(counts.most_messages));
  fmt::print("bytes      {} within hosts, {} between{}; {}the busiest host sends {}, the busiest rank {}\n",
             bytes_text(counts.bytes[0]), bytes_text(counts.bytes[1]), beyond(bytes_text(counts.bytes[2])),
             racks ? fmt::format("the busiest rack sends {}, ", bytes_text(counts.most_from_rack)) : "",
             bytes_text(counts.most_from_host), bytes_text(counts.most_from_rank));
  fmt::print("folds      {}, copies {}\n", bytes_text(counts.folded), bytes_text(counts.copied));
}

/// Prints the results of formulas, for calls with too many steps to count.
void print_formulas(const Row& row) {
  const Cost cost = cost_of(*row.algorithm, row.call.shape);
  fmt::print("rounds     {} in a lane, by its formula\n", count_text(static_cast<std::size_t>(cost.rounds)));
  fmt::print("messages   more than {}\n", count_text(messages_of(row.counted.counts)));
  fmt::print("bytes      the busiest rank sends {}", bytes_text(cost.elements * row.call.width));
  if (row.algorithm->crossing != nullptr) {
    const Crossing crossing = crossing_of(*row.algorithm, row.call.shape);
    fmt::print("; between hosts {}, of the busiest host {}", bytes_text(crossing.total * row.call.width),
               bytes_text(crossing.most * row.call.width));
  }
  fmt::print(", by its formulas\n");
}

void print_memory(const Row& row) {
  fmt::print("memory     {} of scratch for the rank that needs most, {} for its schedules\n",
             bytes_text(row.counts().scratch), bytes_text(row.counted.schedules));
}

void print_bound(const model::Bound& bound) {
  fmt::print("bound      {}: latency {}, bandwidth {}, fold {}\n", time_text(bound.seconds), time_text(bound.latency),
             time_text(bound.bandwidth), time_text(bound.fold));
}

void print_times(const Row& row, const model::Bound& bound) {
  const auto times = [&](double seconds) {
    return bound.seconds > 0 ? fmt::format(", {} times the lower bound", ratio_text(seconds / bound.seconds))
                             : std::string();
  };
  if (row.replay)
    fmt::print("replay     {}{}{}{}\n", time_text(row.replay->seconds), times(row.replay->seconds),
               row.replay->by_alike ? "; by one host, as all do the same" : "",
               row.replay->stuck.empty() ? "" : "; STUCK: " + row.replay->stuck);
  else
    fmt::print("replay     {}\n", why_not_replayed(row));
  if (row.estimate)
    fmt::print("estimate   {}{}\n", time_text(*row.estimate), times(*row.estimate));
  else
    fmt::print("estimate   none: the algorithm has no formula yet\n");
  print_bound(bound);
}

}  // namespace

std::string title(const Request& request) {
  return titled(request,
                bytes_text(request.bytes()) + (request.has_blocks() ? " a block" : "") +
                    fmt::format(" ({} {})", count_text(request.shape.count), name(request.dtype)),
                plural(static_cast<std::size_t>(request.shape.size), "rank"), hosts_text(request));
}

std::string sweep_title(const Request& request) {
  const Hosts& hosts = *request.hosts;
  const std::string block = request.has_blocks() ? " a block" : "";
  const std::string bytes = bytes_text(request.bytes()) + block;
  const std::string ranks = plural(static_cast<std::size_t>(request.shape.size), "rank");
  const std::string hosts_most = plural(static_cast<std::size_t>(hosts.count()), "host");
  const char* const order = request.layout.order == Layout::Order::turns ? "turns" : "blocks";
  if (request.sweep == "bytes") return titled(request, "8 B to 256 MiB" + block, ranks, hosts_text(request));
  if (request.sweep == "ranks")
    return titled(request, bytes, "2 to " + ranks,
                  hosts.count() == 1 ? "on one host" : fmt::format("on {}, in {}", hosts_most, order));
  return titled(request, bytes, fmt::format("1 to {}", hosts_most),
                fmt::format("of {}, in {}", hosts.largest(), order));
}

void print_call(const Request& request) {
  fmt::print("{}\n", request.sweep.empty() ? title(request) : sweep_title(request));
  fmt::print("network    {}{}{}\n", request.network_name, request.network_name.empty() ? "" : ": ",
             to_string(request.network));
}

void print_page(const Request& request, const Row& row, const Verdict& verdict, const Ranking* ranking) {
  print_call(request);
  fmt::print("algorithm  {}: {}\n", row.algorithm->name, row.algorithm->idea);
  fmt::print("lanes      {}\n", lanes_text(request, row));
  if (ranking != nullptr) {
    print_reason(row, *ranking, request.hosts->count() == 1);
    print_rule(request);
  }
  fmt::print("\n");
  if (row.counted.whole)
    print_counted(row);
  else
    print_formulas(row);
  print_memory(row);
  fmt::print("\n");
  print_times(row, bound_of(request));
  fmt::print("check      {}\n", verdict.text);
}

namespace {

/// Returns a cell of the table of algorithms: the bytes between hosts, counted or by formula.
std::string between_text(const Row& row) {
  if (row.counted.whole) return bytes_text(row.counts().bytes[1] + row.counts().bytes[2]);
  if (row.algorithm->crossing == nullptr) return "-";
  return bytes_text(crossing_of(*row.algorithm, row.call.shape).total * row.call.width);
}

/// Returns a cell with the bytes between racks.
std::string beyond_text(const Row& row) { return row.counted.whole ? bytes_text(row.counts().bytes[2]) : "-"; }

std::size_t rounds_of(const Row& row) {
  return static_cast<std::size_t>(row.counted.whole ? row.counts().rounds
                                                    : cost_of(*row.algorithm, row.call.shape).rounds);
}

std::string with_host(const Request& request, int rank) {
  if (request.hosts->count() == 1) return std::to_string(rank);
  return fmt::format("{} (host {})", rank, request.hosts->host_of(rank));
}

/// Returns to_string(step), with the peer's host added.
std::string step_text(const Request& request, const Step& step) {
  std::string text = to_string(step);
  if (step.peer < 0) return text;
  const std::size_t at = text.find(' ') + 1;  // the peer follows the verb
  return text.replace(at, std::to_string(step.peer).size(), with_host(request, step.peer));
}

void print_rounds_of(const Request& request, const Row& row, int rank) {
  const Lanes& lanes = row.call.lanes;
  Shape lane = row.call.shape;
  lane.rank = rank;
  lane.count = request.lane + 1 == lanes.number ? rest_of(lanes, lane.count) : lanes.count;
  lane.way = static_cast<int>(request.lane) % ways_of(*row.algorithm, row.call.shape);
  const Schedule plan = row.algorithm->plan(lane);
  fmt::print("\nrank {}\n", with_host(request, rank));
  int printed = 0;
  for (int i = 0; i < plan.rounds(); ++i) {
    if (printed == request.steps) {
      fmt::print("  ... and {}, which --steps {} prints\n",
                 plural(static_cast<std::size_t>(plan.rounds() - i), "more round"), plan.rounds());
      return;
    }
    std::string line;
    plan.play(i, [&](const Step& step) { line += (line.empty() ? "" : " | ") + step_text(request, step); });
    if (line.empty()) continue;
    fmt::print("  {:>3}  {}\n", i, line);
    ++printed;
  }
  if (printed == 0) fmt::print("  nothing to do\n");
}

}  // namespace

void print_ranking(const Request& request, const Ranking& ranking, std::span<const Verdict> verdicts) {
  print_call(request);
  const model::Bound bound = bound_of(request);
  print_bound(bound);
  const bool racks = request.hosts->above() != nullptr;
  fmt::print("\n  {:<20} {:>9} {:>9} {:>8} {:>6} {:>9} {:>12}{}\n", "algorithm", "estimate", "replay", "/ bound",
             "lanes", "rounds", "between", racks ? "       beyond" : "");
  const Row* fastest = nullptr;
  for (const Row& row : ranking.rows) {
    const double seconds = row.seconds().value_or(0);
    fmt::print("{} {:<20} {:>9} {:>9} {:>8} {:>6} {:>9} {:>12}", row.chosen ? '*' : ' ', row.algorithm->name,
               row.estimate ? time_text(*row.estimate) : "-", row.replay ? time_text(row.replay->seconds) : "-",
               bound.seconds > 0 && seconds > 0 ? ratio_text(seconds / bound.seconds) : "-",
               count_text(row.call.lanes.number), count_text(rounds_of(row)), between_text(row));
    if (racks) fmt::print(" {:>12}", beyond_text(row));
    if (!row.replay) fmt::print("  {}", why_not_replayed(row));
    if (!verdicts.empty()) fmt::print("  {}", verdicts[static_cast<std::size_t>(&row - ranking.rows.data())].text);
    fmt::print("\n");
    if (row.replay && (fastest == nullptr || row.replay->seconds < fastest->replay->seconds)) fastest = &row;
  }
  const Row& chosen = ranking.chosen();
  fmt::print(
      "\n* chosen, by {}{}. between: bytes that cross hosts{}\n", ranking.by_replay ? "replay" : "its estimate",
      fastest == nullptr || !chosen.replay || fastest->replay->seconds == 0
          ? ""
          : fmt::format(": {} times the fastest replay", ratio_text(chosen.replay->seconds / fastest->replay->seconds)),
      racks ? ", beyond: those that cross racks" : "");
}

void print_rounds(const Request& request, const Row& row) {
  const std::size_t lanes = row.call.lanes.number;
  if (request.lane >= lanes)
    throw Error(Code::invalid,
                fmt::format("there is no --lane {}: the call has {}, from 0 on", request.lane, plural(lanes, "lane")));
  print_call(request);
  fmt::print("algorithm  {}: {}\n", row.algorithm->name, row.algorithm->idea);
  fmt::print("lanes      {}", lanes_text(request, row));
  if (lanes > 1) fmt::print("; this is lane {}", request.lane);
  fmt::print("\n");
  if (request.rank) return print_rounds_of(request, row, *request.rank);
  for (int rank = 0; rank < request.shape.size; ++rank) print_rounds_of(request, row, rank);
}

}  // namespace tutti::planning
