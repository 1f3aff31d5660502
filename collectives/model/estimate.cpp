// Estimate: see estimate.hpp. Lanes are the parts of a call's buffer that run its schedule independently.
#include "collectives/model/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <numeric>
#include <utility>

#include "collectives/model/cores.hpp"
#include "collectives/model/replay.hpp"
#include "collectives/plan/geometry.hpp"
#include "transports/core/layout.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {
namespace {

/// The time of the messages of `way`, one after another, and of its folds.
double chain_time(const Expense::Way& way, double width, const Network& network) {
  const auto passage = [&](const Passage& messages, const Link& link) {
    return messages.messages * (link.latency + 2 * link.overhead) + messages.elements * width * link.per_byte;
  };
  const Link between = network[Level::between], beyond = network.beyond();
  double far = way.beyond.messages * (beyond.latency + 2 * beyond.overhead);
  far += width * std::max(way.beyond.elements * between.per_byte, way.uplink * beyond.per_byte);
  return passage(way.within, network[Level::within]) + passage(way.between, between) + far +
         way.folded * width * network.fold_per_byte;
}

/// The weight of the times of all resources except the busiest one: these times do not overlap completely with its
/// time.
constexpr double beside = 0.1;

/// The time that a lane adds on the busiest of these: a rank's processor, a rank's link within its host, the link of a
/// host, the link of a rack. The times of the others count with the weight `beside`.
double load_time(const Expense::Way& load, double width, const Network& network) {
  const Link &within = network[Level::within], &between = network[Level::between];
  const Link beyond = network.beyond();
  const double processor = load.folded * width * network.fold_per_byte +
                           2 * (load.within.messages * within.overhead + load.between.messages * between.overhead +
                                load.beyond.messages * beyond.overhead);
  const double busy[] = {processor, load.within.elements * width * within.per_byte,
                         (load.between.elements + load.beyond.elements) * width * between.per_byte,
                         load.uplink * width * beyond.per_byte};
  const double busiest = *std::ranges::max_element(busy);
  return busiest + beside * (std::accumulate(std::begin(busy), std::end(busy), 0.0) - busiest);
}

/// The processor time of the busiest rank for its messages that are not in the chain.
double time_aside(const Expense& expense, const Network& network) {
  const auto aside = [](const Passage& load, const Passage& chain, const Link& link) {
    return 2 * std::max(0.0, load.messages - chain.messages) * link.overhead;
  };
  return aside(expense.load.within, expense.chain.within, network[Level::within]) +
         aside(expense.load.between, expense.chain.between, network[Level::between]) +
         aside(expense.load.beyond, expense.chain.beyond, network.beyond());
}

/// The expense of a lane. If there are racks and the algorithm's formula ignores them (Algorithm::racks), all messages
/// between hosts count as messages between racks, which all hosts of a rack send at the same time.
Expense expense_of(const Algorithm& algorithm, const Shape& lane) {
  Expense expense = algorithm.expense(lane);
  const Hosts* const racks = hosts_of(lane).above();
  if (algorithm.racks || racks == nullptr) return expense;
  for (Expense::Way* const way : {&expense.chain, &expense.load, &expense.stay}) {
    way->uplink += way->between.elements * racks->largest();
    way->beyond.messages += way->between.messages;
    way->beyond.elements += way->between.elements;
    way->between = {};
  }
  return expense;
}

constexpr int most_asked = 64;               // the most ranks whose plans work_time() makes
constexpr std::size_t most_steps = 1 << 16;  // after so many steps, and at least 4 ranks, it makes no more plans
/// If ranks share cores, the time of a call is the work on these cores, plus this share of the time that the call takes
/// if each rank has a core, because cores are idle at times. Fitted to 16 ranks on two cores.
constexpr double unfilled = 1.0 / 3;

/// A pseudorandom rank in [begin, begin + count). Ranks at regular distances could all have the same position in a tree
/// or a host.
int rank_in(int begin, int count) noexcept {
  auto hash = (static_cast<std::uint64_t>(begin) + 1) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  return begin + static_cast<int>((hash >> 33) % static_cast<std::uint64_t>(count));
}

/// The time that the messages, folds and copies of a lane take on cores that ranks share; 0 if each rank has its own
/// core. Extrapolated from the plans of a sample of ranks.
double work_time(const Algorithm& algorithm, Shape lane, double width, const Network& network) {
  const Hosts& hosts = hosts_of(lane);
  const double cores = shared_cores(network, hosts);
  if (cores == 0) return 0;
  const int parts = std::min(lane.size, most_asked);
  double seconds = 0;
  std::size_t steps = 0;
  int asked = 0;
  for (; asked < parts && (steps < most_steps || asked < 4); ++asked) {
    const auto begin_of = [&](int part) {
      return static_cast<int>(static_cast<std::int64_t>(part) * lane.size / parts);
    };
    const int part = parts < most_asked ? asked : asked * 29 % most_asked;  // consecutive parts are far apart
    lane.rank = rank_in(begin_of(part), begin_of(part + 1) - begin_of(part));
    const Schedule plan = algorithm.plan(lane);
    for (int round = 0; round < plan.rounds(); ++round)
      plan.play(round, [&](const Step& one) {
        ++steps;
        if (one.is_local() || one.folds())
          seconds += static_cast<double>(one.slice.count) * width * network.fold_per_byte;
        if (one.is_local()) return;
        const Level level = level_between(hosts, lane.rank, one.peer);
        seconds += (level == Level::beyond ? network.beyond() : network[level]).overhead;
      });
  }
  return seconds * lane.size / asked / cores;
}

/// The least time to broadcast a short message from one host or rank to all of `ends`. Each that has the message begins
/// `senders` sends in every `overhead`, and a receiver has it after the latency and two overheads.
///
/// Karp, Sahay, Santos & Schauser, "Optimal broadcast and summation in the LogP model", SPAA 1993.
double news_time(int ends, int senders, const Link& link) {
  if (ends <= 1) return 0;
  const double travel = link.latency + 2 * link.overhead;
  if (link.overhead <= 0) return travel;
  const auto steps = static_cast<std::size_t>(travel / link.overhead);  // the time of a message in overheads
  std::vector<double> begun;  // for each time in overheads, the number of sends that have begun until then
  double sum = 0;
  for (std::size_t now = 0;; ++now) {
    const double know = now < steps ? 1 : 1 + begun[now - steps];
    if (know >= ends) return static_cast<double>(now) * link.overhead;
    begun.push_back(sum += know * senders);
  }
}

}  // namespace

Limits limits_of(const Settings& settings) noexcept {
  return {static_cast<std::size_t>(settings.lane_bytes), static_cast<std::size_t>(settings.max_lanes)};
}

std::optional<double> estimate(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Lanes& lanes,
                               const Network& network, std::size_t at_once) {
  if (algorithm.expense == nullptr) return std::nullopt;
  if (shape.size == 1 || (shape.count == 0 && algorithm.kind != Kind::barrier)) return 0;
  Shape lane = shape;
  lane.count = lanes.count;
  const Expense expense = expense_of(algorithm, lane);
  const double bytes = static_cast<double>(width), load = load_time(expense.load, bytes, network);
  const double first = std::max(chain_time(expense.chain, bytes, network) + time_aside(expense, network), load);
  const double stay = expense.stay == Expense::Way{} ? first : chain_time(expense.stay, bytes, network);
  const double more = static_cast<double>(lanes.number - 1);
  const double turns = std::ceil(static_cast<double>(lanes.number) / static_cast<double>(at_once));
  const double alone = first + std::max(more * load, (turns - 1) * stay);
  const double work = static_cast<double>(lanes.number) * work_time(algorithm, lane, bytes, network);
  return work > 0 ? std::max(alone, work + unfilled * alone) : alone;
}

namespace {

/// The algorithm with the lanes for which its estimate is least (see best_piece()).
Candidate best_cut(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Network& network,
                   const Limits& limits) {
  Candidate best;
  for (std::size_t piece = limits.lane_bytes; piece >= std::min(limits.least, limits.lane_bytes); piece /= 2) {
    const Lanes lanes = lanes_of(algorithm, shape, width, piece);
    if (best.algorithm != nullptr && lanes.number == best.lanes.number) continue;
    const std::size_t at_once = limits.at_once(piece);
    const double time = estimate(algorithm, shape, width, lanes, network, at_once).value_or(0);
    if (best.algorithm != nullptr && time >= best.seconds * 0.98) continue;  // prefers fewer lanes, so fewer messages
    best = {&algorithm, piece, lanes, at_once, time};
  }
  return best;
}

}  // namespace

std::size_t best_piece(const Algorithm& algorithm, const Shape& shape, std::size_t width, const Network& network,
                       const Limits& limits) {
  return best_cut(algorithm, shape, width, network, limits).piece;
}

namespace {

/// Decides between algorithms whose estimates differ by at most 1 %: the lesser `overheads` win or, if equal, the
/// lesser `seconds`.
struct Merit {
  double overheads = 0;  ///< seconds of the busiest rank for messages, but at least a twentieth of the least estimate
  double seconds = 0;    ///< by replay of at most 2048 messages, else by estimate with a core for each rank
  auto operator<=>(const Merit&) const = default;
};

Merit merit_of(const Candidate& one, double least, const Shape& shape, std::size_t width, Network network) {
  constexpr double most_replayed = 2048;  // messages
  Shape lane = shape;
  lane.count = one.lanes.count;
  const Expense::Way load = one.algorithm->expense(lane).load;
  const auto lanes = static_cast<double>(one.lanes.number);
  const double messages = (load.within.messages + load.between.messages + load.beyond.messages) * lanes;
  const double overheads =
      2 * lanes *
      (load.within.messages * network[Level::within].overhead +
       load.between.messages * network[Level::between].overhead + load.beyond.messages * network.beyond().overhead);
  Merit merit{std::max(overheads, least / 20), 0};
  if (messages * shape.size <= most_replayed) {
    merit.seconds = replay({one.algorithm, shape, width, one.lanes, one.at_once}, network).seconds;
  } else {
    network.cores = 0;
    merit.seconds = *estimate(*one.algorithm, shape, width, one.lanes, network, one.at_once);
  }
  return merit;
}

/// Moves the best candidate by Merit to the front, of those at most 1 % above the first one. `ranked` is sorted.
void decide_ties(std::vector<Candidate>& ranked, const Shape& shape, std::size_t width, const Network& network) {
  std::vector<Merit> merits;
  for (const Candidate& one : ranked)
    if (one.seconds <= 1.01 * ranked[0].seconds)
      merits.push_back(merit_of(one, ranked[0].seconds, shape, width, network));
  const auto best = ranked.begin() + (std::ranges::min_element(merits) - merits.begin());
  if (merits.size() > 1) std::rotate(ranked.begin(), best, best + 1);
}

}  // namespace

std::vector<Candidate> rank_algorithms(Kind kind, const Shape& shape, std::size_t width, const Network& network,
                                       const Limits& limits) {
  std::vector<Candidate> found;
  for (const Algorithm* const algorithm : catalog()) {
    const bool is_variable = shape.in_blocks != nullptr || shape.out_blocks != nullptr;
    if (algorithm->kind != kind || algorithm->expense == nullptr || (is_variable && !algorithm->variable)) continue;
    if (algorithm->fits != nullptr && !algorithm->fits(shape)) continue;
    found.push_back(best_cut(*algorithm, shape, width, network, limits));
  }
  std::ranges::stable_sort(found, {}, &Candidate::seconds);
  decide_ties(found, shape, width, network);
  return found;
}

namespace {

/// The number of ranks of each host, or of each rack, and the index of the root's host or rack.
struct Groups {
  std::vector<int> sizes;
  int of_root = 0;
  int count() const { return static_cast<int>(sizes.size()); }
  int largest() const { return *std::ranges::max_element(sizes); }
};

Groups groups_of(const Hosts& hosts, int root) {
  Groups groups{{}, hosts.host_of(root)};
  for (int host = 0; host < hosts.count(); ++host) groups.sizes.push_back(hosts.size_of(host));
  return groups;
}

Groups racks_of(const Hosts& hosts, int root) {
  const Hosts* const table = hosts.above();
  if (table == nullptr) return {{static_cast<int>(hosts.host().size())}, 0};
  Groups racks{std::vector<int>(static_cast<std::size_t>(table->count())), table->host_of(hosts.host_of(root))};
  for (int host = 0; host < hosts.count(); ++host)
    racks.sizes[static_cast<std::size_t>(table->host_of(host))] += hosts.size_of(host);
  return racks;
}

/// The bytes that must enter or leave the busiest host or rack, for a buffer, or blocks, of `n` bytes.
double into_group(Kind kind, double n, const Groups& groups, double ranks) {
  const double count = groups.count();
  if (count == 1) return 0;
  double most = 0;
  switch (kind) {
    case Kind::allreduce: return 2 * n * (count - 1) / count;
    case Kind::reduce:
    case Kind::broadcast: return n;
    case Kind::reduce_scatter:
    case Kind::allgather: return n * (ranks - *std::ranges::min_element(groups.sizes));
    case Kind::gather:
    case Kind::scatter: return n * (ranks - groups.sizes[static_cast<std::size_t>(groups.of_root)]);
    case Kind::alltoall:
      for (const double size : groups.sizes) most = std::max(most, size * (ranks - size));
      return n * most;
    default: return 0;
  }
}

}  // namespace

Bound lower_bound(Kind kind, const Shape& shape, std::size_t width, const Network& network) {
  const Hosts& hosts = hosts_of(shape);
  const double n = static_cast<double>(shape.count * width), ranks = shape.size;
  const Groups racks = racks_of(hosts, shape.root);
  const Link &within = network[Level::within], &between = network[Level::between];
  const Link beyond = network.beyond();
  Bound bound;
  if (shape.size == 1 || (shape.count == 0 && kind != Kind::barrier)) return bound;
  bound.latency = std::max(news_time(hosts.count(), hosts.largest(), between), news_time(hosts.largest(), 1, within));
  if (racks.count() > 1) bound.latency = std::max(bound.latency, news_time(racks.count(), racks.largest(), beyond));
  double entering = 0, folded = 0;  // bytes that must enter or leave the busiest rank; bytes that a rank must fold
  switch (kind) {
    case Kind::allreduce:
      entering = 2 * n * (ranks - 1) / ranks;
      folded = n * (ranks - 1) / ranks;
      break;
    case Kind::reduce: folded = n * (ranks - 1) / ranks; [[fallthrough]];
    case Kind::broadcast: entering = n; break;
    case Kind::reduce_scatter: folded = n * (ranks - 1); [[fallthrough]];
    case Kind::allgather:
    case Kind::alltoall:
    case Kind::gather:
    case Kind::scatter: entering = n * (ranks - 1); break;
    default: break;
  }
  const double into_host = into_group(kind, n, groups_of(hosts, shape.root), ranks),
               into_rack = into_group(kind, n, racks, ranks);
  // A rank receives from its own host and from other hosts, at best by both links at the same time.
  const double both = within.per_byte * between.per_byte / (within.per_byte + between.per_byte);
  const double fastest = hosts.count() == 1 ? within.per_byte : hosts.largest() == 1 ? between.per_byte : both;
  bound.bandwidth = std::max({entering * fastest, into_host * between.per_byte, into_rack * beyond.per_byte});
  bound.fold = folded * network.fold_per_byte;
  bound.seconds = std::max({bound.latency, bound.bandwidth, bound.fold});
  return bound;
}

}  // namespace tutti::model
