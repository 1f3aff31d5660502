// Expenses: formulas for Algorithm::expense, put together from phases.
#pragma once

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti::expenses {

/// The links of a phase, and how many ranks of a host use its link at the same time, and of a rack that rack's.
struct Links {
  enum class Level { within, between, beyond } level = Level::within;
  double sharing = 1, of_rack = 1;
};
inline constexpr Links inside{};
constexpr Links across(int sharing) noexcept { return {Links::Level::between, static_cast<double>(sharing)}; }
/// Between racks, for `hosts` hosts of a rack at the same time; between hosts where these are in no racks.
inline Links beyond(const Hosts& table, int sharing, int hosts) {
  Links links = across(sharing);
  if (table.above() == nullptr) return links;
  links.level = Links::Level::beyond;
  links.of_rack = links.sharing * hosts;
  return links;
}

/// The links one level above those inside the groups of `table`, for one member of each column of a group.
inline Links above(Links links, const Hosts& table) {
  if (links.level == Links::Level::within) return across(table.columns());
  if (links.level == Links::Level::between) links.of_rack = links.sharing * table.columns();
  links.level = Links::Level::beyond;
  return links;
}
/// The same for one rank of a group.
inline Links alone(Links links) { return {links.level, 1, 1}; }

/// Those of an algorithm that does not use the hosts: on several hosts with several ranks each, all messages are
/// counted as if they went between hosts, and racks.
inline Links flat(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  if (hosts.count() == 1) return inside;
  return beyond(hosts, hosts.largest(), hosts.above() != nullptr ? hosts.above()->largest() : 1);
}
inline Passage& passage(Expense::Way& way, Links links) {
  if (links.level == Links::Level::within) return way.within;
  return links.level == Links::Level::between ? way.between : way.beyond;
}
/// Adds `messages` messages, one after another, with `elements` elements in all, of a rank that shares `links`.
inline void take(Expense::Way& way, Links links, double messages, double elements) {
  passage(way, links) = {messages, elements * links.sharing};
  if (links.level == Links::Level::beyond) way.uplink = elements * links.of_rack;
}

/// A phase in which every rank sends and receives `messages` messages, one after another, with `elements` elements in
/// all, and folds or copies `folded` elements in all.
inline Expense exchange(Links links, double messages, double elements, double folded = 0) {
  Expense sum;
  take(sum.chain, links, messages, elements);
  sum.chain.folded = folded;
  sum.load = sum.stay = sum.chain;
  return sum;
}

/// A phase in which every rank sends a message to, and receives one from, each of `peers` others at once.
inline Expense at_once(Links links, double peers, double elements, double folded = 0) {
  Expense sum = exchange(links, peers, elements, folded);
  for (Passage* const one : {&sum.chain.within, &sum.chain.between, &sum.chain.beyond})
    one->messages = std::min(one->messages, 1.0);
  sum.stay = sum.chain;
  return sum;
}

/// As exchange(), in `rounds` rounds in each of which every rank sends to, and receives from, that many `peers` at
/// once. All but the first of these cost one overhead and not two, since it sends while the first message travels.
inline Expense rounds_of(double peers, Links links, double rounds, double elements, double folded = 0) {
  Expense sum = exchange(links, rounds, elements, folded);
  passage(sum.load, links).messages *= (1 + peers) / 2;
  return sum;
}

/// A tree over `ranks`, upwards where it folds: a chain of `depth` messages of `elements` each, in which each rank
/// receives or sends `fan` times.
inline Expense tree(Links links, double depth, double fan, double elements, bool folds) {
  Expense sum;
  links = {links.level};
  take(sum.chain, links, depth, std::max(depth, fan) * elements);
  take(sum.load, links, fan / 2, fan * elements);
  sum.chain.folded = folds ? depth * elements : 0;
  sum.load.folded = folds ? fan * elements : 0;
  take(sum.stay, links, std::min(depth, 2.0), std::min(fan + 1, std::max(depth, fan)) * elements);
  sum.stay.folded = sum.load.folded;
  return sum;
}
inline Expense binomial(Links links, int ranks, double elements, bool folds) {
  return tree(links, folds ? log2_ceil(ranks) : log2_floor(ranks), log2_ceil(ranks), elements, folds);
}
inline Expense chain(Links links, int ranks, double elements, bool folds) {
  Expense sum = tree(links, ranks - 1, std::min(ranks - 1, 1), elements, folds);
  if (ranks > 2) passage(sum.load, links).messages = 1;  // a rank in the middle receives one and sends one
  return sum;
}

/// Trees in trees: inside every host, and over the hosts, or over those of a rack and over the racks, and so on.
/// Calls each(links, ranks) for those of every level, of so many ranks at most, from inside hosts outwards.
template <typename Each>
void each_tree(const Hosts& hosts, Each each) {
  Links links = inside;
  const Hosts* table = &hosts;
  for (; table->above() != nullptr; table = table->above()) {
    each(links, table->largest());
    links = alone(above(links, *table));
  }
  each(links, table->largest());
  each(alone(above(links, *table)), table->count());
}
/// The sum of depth(ranks) over them.
template <typename Depth>
int depth_of_trees(const Hosts& hosts, Depth depth) {
  int sum = 0;
  each_tree(hosts, [&](Links, int ranks) { sum += depth(ranks); });
  return sum;
}

/// Recursive doubling of whole buffers, with two more messages where ranks are no power of two.
inline Expense doubling(Links links, int ranks, double elements) {
  const int rounds = log2_floor(ranks), extra = power_of_two_below(ranks) < ranks ? 2 : 0;
  return exchange(links, rounds + extra, (rounds + extra) * elements, (rounds + extra / 2) * elements);
}

/// Halving and doubling of a buffer, as above.
inline Expense halving_doubling(Links links, int ranks, double elements) {
  const int k = power_of_two_below(ranks), extra = k < ranks ? 2 : 0;
  const double moved = elements * (k - 1) / k;
  return exchange(links, 2 * log2_floor(k) + extra, 2 * moved + extra * elements, moved + extra / 2 * elements);
}

/// `rounds` rounds of `elements` each around a ring.
inline Expense ring(Links links, double rounds, double elements, bool folds = false) {
  return exchange(links, rounds, rounds * elements, folds ? rounds * elements : 0);
}

/// Counts the messages of a ring or chain that go to another rack. Where racks are passed one after the other, the
/// chain of messages leaves every rack but one once, and the busiest host sends all of its messages to another rack.
inline void cross_racks(Expense& sum, const Hosts& hosts, double elements) {
  if (hosts.above() == nullptr) return;
  const double messages = hosts.above()->in_blocks() ? hosts.above()->count() - 1 : sum.chain.between.messages;
  const double each = messages * elements;
  sum.chain.between = {sum.chain.between.messages - messages, sum.chain.between.elements - each};
  sum.chain.beyond = {messages, each};
  sum.chain.uplink = each;
  sum.load.beyond = {std::min(messages, sum.load.between.messages), sum.load.between.elements};
  sum.load.uplink = sum.load.between.elements * (hosts.above()->in_blocks() ? 1 : hosts.above()->largest());
  sum.load.between = {sum.load.between.messages - sum.load.beyond.messages, 0};
}

/// size - 1 rounds of `elements` each around a ring of all ranks in their order. What is sent on goes between hosts
/// once for every host, and one rank of each host sends all that leaves it.
inline Expense ring_of_ranks(const Shape& s, double elements, bool folds = false) {
  const Hosts& hosts = hosts_of(s);
  const double rounds = s.size - 1, between = hosts.count() - 1;
  if (hosts.count() == 1 || !hosts.in_blocks()) return ring(flat(s), rounds, elements, folds);
  Expense sum = ring(inside, rounds, elements, folds);
  sum.load.between = {rounds, rounds * elements};
  sum.load.within.messages = 0;  // its others do not send at that rank's cost
  sum.chain.between = {between, between * elements};
  sum.chain.within = {rounds - between, (rounds - between) * elements};
  cross_racks(sum, hosts, elements);
  sum.stay = sum.chain;
  return sum;
}

/// A chain through all ranks in their order.
inline Expense chain_of_ranks(const Shape& s, double elements, bool folds) {
  const Hosts& hosts = hosts_of(s);
  if (hosts.count() == 1 || !hosts.in_blocks()) return chain(flat(s), s.size, elements, folds);
  Expense sum = chain(inside, s.size - hosts.count() + 1, elements, folds);
  const Expense between = chain(across(1), hosts.count(), elements, folds);
  sum.chain.between = between.chain.between;
  sum.chain.folded += between.chain.folded;
  sum.load.between = between.load.between;
  sum.stay.between = between.stay.between;  // as if one rank had both neighbours on other hosts
  cross_racks(sum, hosts, elements);
  return sum;
}

/// Local copies or folds.
inline Expense here(double elements) { return exchange(inside, 0, 0, elements); }

inline Expense::Way operator+(const Expense::Way& a, const Expense::Way& b) {
  const auto sum = [](const Passage& x, const Passage& y) -> Passage {
    return {x.messages + y.messages, x.elements + y.elements};
  };
  return {sum(a.within, b.within), sum(a.between, b.between), a.folded + b.folded, sum(a.beyond, b.beyond),
          a.uplink + b.uplink};
}
/// One phase after another.
inline Expense operator+(const Expense& a, const Expense& b) {
  return {a.chain + b.chain, a.load + b.load, a.stay + b.stay};
}
/// Such trees, of which along(links, ranks) costs those of a level.
template <typename Along>
Expense of_trees(const Hosts& hosts, Along along) {
  Expense sum;
  each_tree(hosts, [&](Links links, int ranks) { sum = sum + along(links, ranks); });
  return sum;
}
/// The same where ranks wait in the middle of a lane, until the last of the chain has come.
inline Expense there_and_back(const Expense& there, const Expense& back) {
  Expense sum = there + back;
  sum.stay = sum.chain;
  return sum;
}

inline double number(std::size_t count) noexcept { return static_cast<double>(count); }

/// A binomial tree at whose root the blocks of all others arrive, or from which they leave, after `depth` messages.
inline Expense blocks_by_tree(const Shape& s, int depth) {
  const double at_root = (s.size - 1) * number(s.count), fan = log2_ceil(s.size);
  return tree(flat(s), depth, fan, at_root / std::max(1.0, fan), false);
}

}  // namespace tutti::expenses
