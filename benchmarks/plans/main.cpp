// Prints the table of choices. For every number of hosts, kind and size it compares the cost of the chosen algorithm
// with that of the best one, and the best with the lower bound. All costs are those of the model of the network.
//
//   plan_choices [NETWORK] [MESSAGES]
//
// A cost is found by playing all messages of the plan on the model. If all ranks together would send more than MESSAGES
// messages (default: 4 million), it is an estimate, marked by ~. The exit code is 1 if a choice costs more than 1.1
// times the best, or the best more than 1.5 times the bound.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "collectives/model/replay.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

constexpr Kind kinds[] = {Kind::allreduce, Kind::broadcast,      Kind::reduce,
                          Kind::allgather, Kind::reduce_scatter, Kind::alltoall};
constexpr std::size_t sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 64 << 20};
constexpr double good_choice = 1.1, good_plan = 1.5;
constexpr double worth_replaying = 3;  // times the least estimate; candidates above that are not replayed

struct Cost {
  double seconds = 0;
  bool is_estimate = false;
};

std::size_t messages_of(const model::Candidate& one, Shape shape) {
  shape.count = one.lanes.count;
  std::size_t most = 0;
  for (const int rank : {0, shape.size / 2, shape.size - 1}) {
    shape.rank = rank;
    most = std::max(most, tally(one.algorithm->plan(shape)).messages);
  }
  const auto players = static_cast<std::size_t>(one.algorithm->alike ? hosts_of(shape).largest() : shape.size);
  return most * one.lanes.number * players;
}

Cost cost_of(const model::Candidate& one, const Shape& shape, const model::Network& network, std::size_t most) {
  if (messages_of(one, shape) > most) return {one.seconds, true};
  const model::Outcome played = model::replay({one.algorithm, shape, 4, one.lanes, one.at_once}, network);
  if (!played.stuck.empty()) throw std::runtime_error(std::string(one.algorithm->name) + ": " + played.stuck);
  return {played.seconds, false};
}

struct Summary {
  int cells = 0, not_judged = 0, bad_choices = 0, bad_plans = 0;
  double worst_choice = 0, worst_plan = 0;
};

/// One cell: "chosen 12.9 us; best recursive_doubling 1.00; 3.2 of the bound".
void print_cell(Kind kind, const Shape& shape, const model::Network& network, std::size_t most, Summary& summary) {
  const auto ranked = model::rank_algorithms(kind, shape, 4, network);
  const Cost chosen = cost_of(ranked.front(), shape, network, most);
  Cost best = chosen;
  std::string_view name = ranked.front().algorithm->name;
  for (const model::Candidate& one : std::span(ranked).subspan(1)) {
    if (one.seconds > worth_replaying * ranked.front().seconds) break;
    const Cost cost = cost_of(one, shape, network, most);
    if (cost.is_estimate != chosen.is_estimate || cost.seconds >= best.seconds) continue;
    best = cost;
    name = one.algorithm->name;
  }
  const double bound = model::lower_bound(kind, shape, 4, network).seconds;
  const double choice = chosen.seconds / best.seconds, plan = best.seconds / bound;
  ++summary.cells;
  summary.not_judged += chosen.is_estimate;  // by estimates, the choice is always the best
  summary.bad_choices += choice > good_choice;
  summary.bad_plans += plan > good_plan;
  summary.worst_choice = std::max(summary.worst_choice, choice);
  summary.worst_plan = std::max(summary.worst_plan, plan);
  std::printf("%-15s %10zu  %-22s %5zu %12.1f%c %6.2f%c %-22s %6.2f%c\n", std::string(tutti::name(kind)).c_str(),
              shape.count * 4, std::string(ranked.front().algorithm->name).c_str(), ranked.front().lanes.number,
              chosen.seconds * 1e6, chosen.is_estimate ? '~' : ' ', choice, choice > good_choice ? '!' : ' ',
              std::string(name).c_str(), plan, plan > good_plan ? '!' : ' ');
  std::fflush(stdout);
}

int run(int count, char** words) {
  const model::Network network = model::parse_network(count > 1 ? words[1] : "fabric");
  const std::size_t most = count > 2 ? std::strtoull(words[2], nullptr, 10) : 4'000'000;
  Summary summary;
  for (const int ranks : {1, 8})
    for (const int hosts : {16, 64, 256, 1000, 8000}) {
      std::vector<int> host;
      for (int rank = 0; rank < hosts * ranks; ++rank) host.push_back(rank / ranks);
      const Hosts table(host, hosts * ranks);
      std::printf("\n%d hosts of %d, %s\n%-15s %10s  %-22s %5s %12s  %7s %-22s %s\n", hosts, ranks,
                  to_string(network).c_str(), "", "bytes", "chosen", "lanes", "us", "/ best", "best", "/ bound");
      for (const Kind kind : kinds)
        for (const std::size_t bytes : sizes) {
          const bool has_blocks = kind == Kind::allgather || kind == Kind::reduce_scatter || kind == Kind::alltoall;
          if (has_blocks && bytes > 1 << 20) continue;  // every rank would need gigabytes
          print_cell(kind, {.size = hosts * ranks, .count = bytes / 4, .hosts = &table}, network, most, summary);
        }
    }
  std::printf(
      "\n%d cells, of which %d are estimates alone: %d choices cost more than %.1f times the best (at most %.2f), "
      "%d plans more than %.1f times the bound (at most %.2f)\n",
      summary.cells, summary.not_judged, summary.bad_choices, good_choice, summary.worst_choice, summary.bad_plans,
      good_plan, summary.worst_plan);
  return summary.bad_choices + summary.bad_plans > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tutti

int main(int count, char** words) {
  try {
    return tutti::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_choices: %s\n", error.what());
    return 2;
  }
}
