// Expenses: formulas for Algorithm::expense, put together from phases.
#pragma once

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti::expenses {

/// The links that a phase uses. `sharing` ranks of a host use the host's link at the same time, and `of_rack` ranks of
/// a rack use the rack's link at the same time.
struct Links {
  enum class Level { within, between, beyond } level = Level::within;
  double sharing = 1, of_rack = 1;
};
inline constexpr Links inside{};
constexpr Links across(int sharing) noexcept { return {Links::Level::between, static_cast<double>(sharing)}; }
/// The links between racks, used by `hosts` hosts of a rack at the same time and `sharing` ranks of each. The links
/// between hosts if there are no racks.
inline Links beyond(const Hosts& table, int sharing, int hosts) {
  Links links = across(sharing);
  if (table.above() == nullptr) return links;
  links.level = Links::Level::beyond;
  links.of_rack = links.sharing * hosts;
  return links;
}

/// The links one level above `links`, which are those inside the groups of `table`. The first `columns()` members of a
/// group use them at the same time.
inline Links above(Links links, const Hosts& table) {
  if (links.level == Links::Level::within) return across(table.columns());
  if (links.level == Links::Level::between) links.of_rack = links.sharing * table.columns();
  links.level = Links::Level::beyond;
  return links;
}
/// The same links, used by one rank at a time.
inline Links alone(Links links) { return {links.level, 1, 1}; }

/// The links of an algorithm that does not use the hosts. On several hosts, all messages count as messages between
/// hosts or, if there are racks, between racks.
inline Links flat(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  if (hosts.count() == 1) return inside;
  return beyond(hosts, hosts.largest(), hosts.above() != nullptr ? hosts.above()->largest() : 1);
}
inline Passage& passage(Expense::Way& way, Links links) {
  if (links.level == Links::Level::within) return way.within;
  return links.level == Links::Level::between ? way.between : way.beyond;
}
/// Sets the messages of `way` on `links`: a rank that shares them sends `messages` messages, one after another, with
/// `elements` elements in all.
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

/// As exchange(), but in each of `rounds` rounds every rank sends to, and receives from, `peers` ranks at once. In a
/// round, every message but the first costs one overhead instead of two: the rank sends it while the first one travels.
inline Expense rounds_of(double peers, Links links, double rounds, double elements, double folded = 0) {
  Expense sum = exchange(links, rounds, elements, folded);
  passage(sum.load, links).messages *= (1 + peers) / 2;
  return sum;
}

/// A tree, upwards if it `folds`. The longest chain has `depth` messages of `elements` elements each. A rank receives,
/// or sends, up to `fan` messages.
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

/// Nested trees: one inside every host, and one over the hosts; with racks, one over the hosts of every rack, and one
/// over the racks; and so on. Calls each(links, ranks) for every level, hosts first. Trees have up to `ranks` members.
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
/// The sum of depth(ranks) over the levels of each_tree().
template <typename Depth>
int depth_of_trees(const Hosts& hosts, Depth depth) {
  int sum = 0;
  each_tree(hosts, [&](Links, int ranks) { sum += depth(ranks); });
  return sum;
}

/// Recursive doubling of whole buffers, with two more messages if `ranks` is no power of two.
inline Expense doubling(Links links, int ranks, double elements) {
  const int rounds = log2_floor(ranks), extra = power_of_two_below(ranks) < ranks ? 2 : 0;
  return exchange(links, rounds + extra, (rounds + extra) * elements, (rounds + extra / 2) * elements);
}

/// Recursive halving and doubling of a buffer, with two more messages if `ranks` is no power of two.
inline Expense halving_doubling(Links links, int ranks, double elements) {
  const int k = power_of_two_below(ranks), extra = k < ranks ? 2 : 0;
  const double moved = elements * (k - 1) / k;
  return exchange(links, 2 * log2_floor(k) + extra, 2 * moved + extra * elements, moved + extra / 2 * elements);
}

/// `rounds` rounds of `elements` each around a ring.
inline Expense ring(Links links, double rounds, double elements, bool folds = false) {
  return exchange(links, rounds, rounds * elements, folds ? rounds * elements : 0);
}

/// Moves the messages of a ring or chain to other racks from `between` to `beyond`. If the hosts of each rack follow
/// one another, the chain leaves every rack but one once. The busiest host sends all its messages to another rack.
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

/// size - 1 rounds of `elements` each around a ring of all ranks in rank order. The chain crosses to another host once
/// for every host but one. One rank of each host sends everything that leaves the host.
inline Expense ring_of_ranks(const Shape& s, double elements, bool folds = false) {
  const Hosts& hosts = hosts_of(s);
  const double rounds = s.size - 1, between = hosts.count() - 1;
  if (hosts.count() == 1 || !hosts.in_blocks()) return ring(flat(s), rounds, elements, folds);
  Expense sum = ring(inside, rounds, elements, folds);
  sum.load.between = {rounds, rounds * elements};
  sum.load.within.messages = 0;  // that rank sends nothing inside its host
  sum.chain.between = {between, between * elements};
  sum.chain.within = {rounds - between, (rounds - between) * elements};
  cross_racks(sum, hosts, elements);
  sum.stay = sum.chain;
  return sum;
}

/// A chain through all ranks in rank order.
inline Expense chain_of_ranks(const Shape& s, double elements, bool folds) {
  const Hosts& hosts = hosts_of(s);
  if (hosts.count() == 1 || !hosts.in_blocks()) return chain(flat(s), s.size, elements, folds);
  Expense sum = chain(inside, s.size - hosts.count() + 1, elements, folds);
  const Expense between = chain(across(1), hosts.count(), elements, folds);
  sum.chain.between = between.chain.between;
  sum.chain.folded += between.chain.folded;
  sum.load.between = between.load.between;
  sum.stay.between = between.stay.between;  // the case of a rank with both neighbours on other hosts
  cross_racks(sum, hosts, elements);
  return sum;
}

/// Local copies or folds of `elements`.
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
/// The cost of nested trees (each_tree()), one after another. along(links, ranks) returns the cost of one of them.
template <typename Along>
Expense of_trees(const Hosts& hosts, Along along) {
  Expense sum;
  each_tree(hosts, [&](Links links, int ranks) { sum = sum + along(links, ranks); });
  return sum;
}
/// One phase after another, if ranks wait between the phases until the chain of the first has ended.
inline Expense there_and_back(const Expense& there, const Expense& back) {
  Expense sum = there + back;
  sum.stay = sum.chain;
  return sum;
}

inline double number(std::size_t count) noexcept { return static_cast<double>(count); }

/// A binomial gather of all ranks' blocks to the root, or a scatter from it. The longest path has `depth` messages.
inline Expense blocks_by_tree(const Shape& s, int depth) {
  const double at_root = (s.size - 1) * number(s.count), fan = log2_ceil(s.size);
  return tree(flat(s), depth, fan, at_root / std::max(1.0, fan), false);
}

}  // namespace tutti::expenses
