#include "tools/tune/network.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "collectives/plan/geometry.hpp"
#include "tools/bench/measure.hpp"
#include "transports/core/host.hpp"
#include "transports/core/sha256.hpp"
#include "tutti/clock.hpp"
#include "tutti/reduce.hpp"

namespace tutti::tune {
namespace {

constexpr double least_seconds = 1e-8;   // the least latency
constexpr double most_overhead = 0.45;   // part of a small message's time
constexpr double most_bandwidth = 1e12;  // bytes per second
constexpr double for_one_figure = 0.2;   // seconds
constexpr int burst_messages = 64;
constexpr std::size_t mebibyte = std::size_t{1} << 20;

double since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

// Disturbances on a shared machine only lengthen a time, so the lower eighth counts: of up to eight times, the least.
double lower_eighth_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 8];
}

/// A request of the leading rank to the other one: make `repeats` exchanges, then wait for the next order; 0: the end.
struct Order {
  std::int64_t repeats = 0;
  std::int64_t messages = 1;  ///< messages in the first direction, one after the other, before one comes back
  std::int64_t bytes = 0;     ///< bytes of each message; a reply to a single message has as many, otherwise few
};

/// Two ranks that exchange messages.
class Pair {
 public:
  Pair(Communicator& world, int other) : world_(world), other_(other), memory_(bench::ordinary_memory(4 * mebibyte)) {}

  /// Returns the seconds of one exchange; called on the leading rank.
  double time(Order order) {
    give(order);
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < order.repeats; ++i) {
      const auto begin = Clock::now();
      exchange(order, true);
      seconds.push_back(since(begin));
    }
    return lower_eighth_of(std::move(seconds));
  }

  /// Returns the number of repeats that take for_one_figure, if one exchange takes `seconds`.
  static std::int64_t repeats(double seconds, std::int64_t most) {
    return std::clamp(static_cast<std::int64_t>(for_one_figure / std::max(seconds, 1e-7)), std::int64_t{6}, most);
  }

  void end() { give({}); }

  /// Performs the other rank's part.
  void follow() {
    while (true) {
      Order order;
      world_.recv(Buffer(reinterpret_cast<std::byte*>(&order), sizeof order, DType::u8), other_).wait();
      if (order.repeats == 0) return;
      for (std::int64_t i = 0; i < order.repeats; ++i) exchange(order, false);
    }
  }

 private:
  void give(const Order& order) {
    world_.send(ConstBuffer(reinterpret_cast<const std::byte*>(&order), sizeof order, DType::u8), other_).wait();
  }

  void exchange(const Order& order, bool first) {
    const auto bytes = static_cast<std::size_t>(order.bytes);
    std::vector<Work> works;
    works.reserve(static_cast<std::size_t>(order.messages));
    const auto send = [&](std::size_t size) {
      return world_.send(ConstBuffer(memory_.get(), size, DType::u8), other_);
    };
    const auto receive = [&](std::size_t size) { return world_.recv(Buffer(memory_.get(), size, DType::u8), other_); };
    for (std::int64_t i = 0; i < order.messages; ++i) works.push_back(first ? send(bytes) : receive(bytes));
    for (Work& work : works) work.wait();
    const std::size_t answer = order.messages == 1 ? bytes : small_bytes;
    (first ? receive(answer) : send(answer)).wait();
  }

  Communicator& world_;
  int other_;
  std::shared_ptr<std::byte> memory_;
};

LinkTimes lead(Pair& pair) {
  constexpr std::int64_t little = small_bytes;
  LinkTimes times;
  const double first = pair.time({20, 1, little});  // also connects
  times.small = pair.time({Pair::repeats(first, 2000), 1, little}) / 2;
  times.burst_messages = burst_messages;
  const double burst = pair.time({3, burst_messages, little});
  times.burst = pair.time({Pair::repeats(burst, 200), burst_messages, little}) - times.small;
  // Uses a smaller size if a mebibyte takes long, so that a slow link does not take minutes.
  times.medium_bytes = pair.time({2, 1, mebibyte / 4}) > for_one_figure ? mebibyte / 4 : mebibyte;
  times.large_bytes = 4 * times.medium_bytes;
  for (const auto& [bytes, to] : {std::pair{times.medium_bytes, &times.medium}, {times.large_bytes, &times.large}}) {
    const auto size = static_cast<std::int64_t>(bytes);
    *to = pair.time({Pair::repeats(pair.time({2, 1, size}), 30), 1, size}) / 2;
  }
  pair.end();
  return times;
}

/// Pairs of ranks that exchange messages at the same time.
using Pairs = std::vector<std::pair<int, int>>;

Pairs pairs_within(const Hosts& hosts) {
  Pairs pairs;
  for (int host = 0; host < hosts.count(); ++host)
    for (std::size_t i = 0; i + 1 < hosts[host].size(); i += 2) pairs.emplace_back(hosts[host][i], hosts[host][i + 1]);
  return pairs;
}

/// Returns pairs of ranks of two consecutive hosts in the same rack.
Pairs pairs_between(const Hosts& hosts) {
  Pairs pairs;
  for (int host = 0; host + 1 < hosts.count(); ++host) {
    if (!hosts.share_a_rack(host, host + 1)) continue;
    pairs.emplace_back(hosts[host][0], hosts[host + 1][0]);
    ++host;
  }
  return pairs;
}

/// Returns pairs between the hosts of a rack and as many of the next one, and how many pairs share the racks' links.
std::pair<Pairs, int> pairs_beyond(const Hosts& hosts) {
  const Hosts* const racks = hosts.above();
  Pairs pairs;
  int sharing = 1;
  for (int rack = 0; racks != nullptr && rack + 1 < racks->count(); rack += 2) {
    const auto &here = (*racks)[rack], &there = (*racks)[rack + 1];
    const std::size_t both = std::min(here.size(), there.size());
    sharing = std::max(sharing, static_cast<int>(both));
    for (std::size_t i = 0; i < both; ++i) pairs.emplace_back(hosts[here[i]][0], hosts[there[i]][0]);
  }
  return {pairs, sharing};
}

/// Returns the medians over the pairs; nothing if there are no pairs. Collective.
std::optional<model::Link> measure_link(Communicator& world, const Pairs& pairs) {
  if (pairs.empty()) return std::nullopt;
  std::array<double, 3> mine{};
  for (const auto& [one, other] : pairs) {
    if (world.rank() == one) {
      Pair pair(world, other);
      const model::Link link = fit_link(lead(pair));
      mine = {link.latency, link.per_byte, link.overhead};
    }
    if (world.rank() == other) Pair(world, one).follow();
  }
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.allgather(std::span<const double>(mine), std::span(all)).wait();
  const auto median = [&](std::size_t figure) {
    std::vector<double> values;
    for (const auto& [one, other] : pairs) values.push_back(all[mine.size() * static_cast<std::size_t>(one) + figure]);
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  return model::Link{median(0), median(1), median(2)};
}

double seconds_of_folding() {
  constexpr std::size_t bytes = 4 * mebibyte;  // more than fits into a core's own cache
  const auto into = bench::ordinary_memory(bytes), from = bench::ordinary_memory(bytes);
  const Fold fold;
  std::vector<double> seconds;
  for (int i = 0; i < 50; ++i) {
    const auto begin = Clock::now();
    fold(into.get(), into.get(), from.get(), bytes);
    seconds.push_back(since(begin));
  }
  return std::max(lower_eighth_of(std::move(seconds)) / static_cast<double>(bytes), 1 / most_bandwidth);
}

/// Returns where all ranks run. Collective.
std::vector<Place> places_of(Communicator& world) {
  const std::string machine = machine_identity();
  const Digest digest = sha256(std::as_bytes(std::span(machine)));
  Place mine;
  std::memcpy(&mine.machine, digest.data(), sizeof mine.machine);
  mine.host = world.topology().hosts().host_of(world.rank());
  for (const int core : allowed_cores())
    if (static_cast<std::size_t>(core) < mine.cores.size()) mine.cores.set(static_cast<std::size_t>(core));
  mine.quota = cores_in_quota(static_cast<int>(mine.cores.size()));
  std::vector<Place> all(static_cast<std::size_t>(world.size()));
  world
      .allgather(ConstBuffer(reinterpret_cast<const std::byte*>(&mine), sizeof mine, DType::u8),
                 Buffer(reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof mine, DType::u8))
      .wait();
  return all;
}

/// Returns what a small message costs a processor at either end while all ranks send and wait. Measures a barrier with
/// many messages in few rounds, which keeps all processors busy. Collective.
double overhead_of_all(Communicator& world, double cores) {
  constexpr int tries = 9, barriers = 50;
  const CallOptions by_messages{.algorithm = "planned/dissemination"};
  std::vector<double> seconds;
  for (int i = 0; i < tries; ++i) {
    world.barrier().wait();
    const auto begin = Clock::now();
    for (int k = 0; k < barriers; ++k) world.barrier(by_messages).wait();
    seconds.push_back(since(begin) / barriers);
  }
  return lower_eighth_of(std::move(seconds)) * cores / (2 * world.size() * log2_ceil(world.size()));
}

}  // namespace

model::Link with_overhead(model::Link link, double busy) noexcept {
  const double travel = link.latency + 2 * link.overhead;
  link.overhead = std::clamp(busy, least_seconds / 10, most_overhead * travel);
  link.latency = travel - 2 * link.overhead;
  return link;
}

double cores_of_hosts(std::span<const Place> ranks) {
  struct Machine {
    int ranks = 0, quota = 1;
    CoreSet cores;
    std::set<int> hosts;
  };
  std::map<std::uint64_t, Machine> machines;
  for (const Place& one : ranks) {
    Machine& machine = machines[one.machine];
    ++machine.ranks;
    machine.quota = std::max(machine.quota, one.quota);
    machine.cores |= one.cores;  // ranks bound to one core each have several cores together
    machine.hosts.insert(one.host);
  }
  double least = 1, cores = 0;
  for (const auto& [name, machine] : machines) {
    const double there = std::clamp(static_cast<int>(machine.cores.count()), 1, machine.quota);
    if (there / machine.ranks >= least) continue;
    least = there / machine.ranks;
    cores = there / static_cast<double>(machine.hosts.size());
  }
  return cores;
}

model::Link fit_link(const LinkTimes& times) noexcept {
  model::Link link;
  const double more = static_cast<double>(times.large_bytes) - static_cast<double>(times.medium_bytes);
  link.per_byte = std::max((times.large - times.medium) / std::max(more, 1.0), 1 / most_bandwidth);
  const double travel = std::max(times.small - static_cast<double>(small_bytes) * link.per_byte, least_seconds);
  const double each = (times.burst - times.small) / std::max(times.burst_messages - 1, 1);
  link.overhead = std::clamp(each, least_seconds / 10, most_overhead * travel);
  link.latency = travel - 2 * link.overhead;
  return link;
}

MeasuredNetwork measure_network(Communicator& world) {
  const Topology places = world.topology();
  const Hosts& hosts = places.hosts();
  MeasuredNetwork network;
  network.within = measure_link(world, pairs_within(hosts));
  network.between = measure_link(world, pairs_between(hosts));
  const auto [beyond, sharing] = pairs_beyond(hosts);
  network.beyond = measure_link(world, beyond);
  if (network.beyond) network.beyond->per_byte /= sharing;
  if (world.rank() == 0) network.fold_per_byte = seconds_of_folding();
  network.cores = cores_of_hosts(places_of(world));
  if (network.cores > 0) {
    const double busy = overhead_of_all(world, network.cores * hosts.count());
    for (auto* const link : {&network.within, &network.between, &network.beyond})
      if (*link) *link = with_overhead(**link, std::min(busy, (*link)->overhead));
  }
  world.barrier().wait();
  return network;
}

std::string text_of(const MeasuredNetwork& network) {
  model::Network all;
  const std::pair<model::Level, std::optional<model::Link>> levels[] = {{model::Level::within, network.within},
                                                                        {model::Level::between, network.between},
                                                                        {model::Level::beyond, network.beyond}};
  for (const auto& [level, link] : levels) all[level] = link.value_or(model::Link{1, 1, 1});
  all.fold_per_byte = network.fold_per_byte;
  all.cores = network.cores;
  std::string text = model::to_string(all);  // parts, separated by commas
  for (const auto& [level, link] : levels) {
    if (link) continue;
    const std::size_t begin = text.find(model::name(level));
    text.erase(begin, text.find(", ", begin) + 2 - begin);
  }
  return text;
}

}  // namespace tutti::tune
