#include "tools/plan/counting.hpp"

#include <algorithm>
#include <vector>

#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti::planning {
namespace {

using model::Collective;
using model::Counts;
using model::Level;

/// A number of lanes that have the same schedule. A lane is a part of the buffer with a schedule of its own.
struct AlikeLanes {
  Shape shape;
  std::size_t number;
};

std::vector<AlikeLanes> alike_lanes(const Collective& call) {
  const auto [number, each] = call.lanes;
  const auto ways = static_cast<std::size_t>(ways_of(*call.algorithm, call.shape));
  const std::size_t last = rest_of(call.lanes, call.shape.count);
  const std::size_t full = last == each ? number : number - 1;
  std::vector<AlikeLanes> kinds;
  const auto add = [&](std::size_t way, std::size_t elements, std::size_t lanes) {
    if (lanes == 0) return;
    kinds.push_back({call.shape, lanes});
    kinds.back().shape.way = static_cast<int>(way);
    kinds.back().shape.count = elements;
  };
  for (std::size_t way = 0; way < ways; ++way) add(way, each, (full + ways - 1 - way) / ways);
  add((number - 1) % ways, last, number - full);
  return kinds;
}

/// Counts what one rank does in all lanes.
class OfRank {
 public:
  OfRank(const Collective& call, const Hosts& hosts) : call_(call), hosts_(hosts) {}

  void play(int rank, AlikeLanes lanes) {
    rank_ = rank;
    lanes.shape.rank = rank;
    const Schedule plan = call_.algorithm->plan(lanes.shape);
    schedules += plan.bytes();
    int rounds = 0;
    for (int i = 0; i < plan.rounds(); ++i) {
      const std::size_t before = steps;
      plan.play(i, [&](const Step& step) { take(step, lanes.number); });
      rounds += steps > before ? 1 : 0;
    }
    counts.rounds = std::max(counts.rounds, rounds);
    scratch_ = std::max(scratch_, plan.scratch());
    counts.scratch = scratch_ * call_.width * call_.at_once();
  }

  Counts counts;
  std::size_t steps = 0, schedules = 0;

 private:
  void take(const Step& step, std::size_t lanes) {
    ++steps;
    const std::size_t bytes = step.slice.count * call_.width * lanes;
    if (step.verb == Step::Verb::send) {
      const auto level = static_cast<std::size_t>(model::level_between(hosts_, rank_, step.peer));
      counts.messages[level] += lanes;
      counts.bytes[level] += bytes;
    }
    if (step.folds()) counts.folded += bytes;
    if (step.verb == Step::Verb::copy) counts.copied += bytes;
  }

  const Collective& call_;
  const Hosts& hosts_;
  int rank_ = 0;
  std::size_t scratch_ = 0;
};

void add_rank(Counts& all, const Counts& one) {
  for (int level = 0; level < model::levels; ++level) {
    all.messages[level] += one.messages[level];
    all.bytes[level] += one.bytes[level];
  }
  all.most_from_rank = std::max(all.most_from_rank, one.bytes[0] + one.bytes[1] + one.bytes[2]);
  all.most_messages = std::max(all.most_messages, messages_of(one));
  all.folded += one.folded;
  all.copied += one.copied;
  all.rounds = std::max(all.rounds, one.rounds);
  all.scratch = std::max(all.scratch, one.scratch);
}

}  // namespace

Counted count(const Collective& call, std::size_t most_steps) {
  const Hosts& hosts = hosts_of(call.shape);
  const std::vector<AlikeLanes> lanes = alike_lanes(call);
  Counted found;
  found.by_alike = call.is_alike();
  std::size_t steps = 0;
  std::vector<std::size_t> leaving_racks(
      static_cast<std::size_t>(hosts.above() != nullptr ? hosts.above()->count() : 0));
  for (int host = 0; host < (found.by_alike ? 1 : hosts.count()); ++host) {
    std::size_t leaving = 0;
    for (const int rank : hosts[host]) {
      found.whole = steps < most_steps;
      if (!found.whole) return found;
      OfRank one(call, hosts);
      for (const AlikeLanes& each : lanes) one.play(rank, each);
      add_rank(found.counts, one.counts);
      found.schedules = std::max(found.schedules, one.schedules);
      const std::size_t far = one.counts.bytes[static_cast<std::size_t>(Level::beyond)];
      leaving += one.counts.bytes[static_cast<std::size_t>(Level::between)] + far;
      if (hosts.above() != nullptr) leaving_racks[static_cast<std::size_t>(hosts.above()->host_of(host))] += far;
      steps += one.steps;
      found.played = messages_of(found.counts);
    }
    found.counts.most_from_host = std::max(found.counts.most_from_host, leaving);
  }
  for (const std::size_t bytes : leaving_racks)
    found.counts.most_from_rack = std::max(found.counts.most_from_rack, bytes);
  if (!found.by_alike) return found;
  const auto others = static_cast<std::size_t>(hosts.count());
  for (std::size_t* sum : {&found.counts.messages[0], &found.counts.messages[1], &found.counts.bytes[0],
                           &found.counts.bytes[1], &found.counts.folded, &found.counts.copied})
    *sum *= others;
  return found;
}

}  // namespace tutti::planning
