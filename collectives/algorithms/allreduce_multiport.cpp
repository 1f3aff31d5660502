// Multiport allreduce: recursive multiplying in which several ranks of a host exchange messages with different hosts at
// the same time. First each host folds the data of its ranks into c of them, its carriers, by trees, and the carriers
// allreduce it by recursive doubling. In every round between hosts, groups of g hosts exchange their whole partial
// results. So the number of hosts that share a partial result grows by the factor g. Each carrier receives ceil(g/c) of
// the group's g results, in the order of the hosts, and folds them; then the carriers of a host allreduce these sums by
// recursive doubling. All hosts fold the same operands in the same order and have equal bits. At the end the trees
// bring the result back to all ranks. The number of hosts is the product of the groups' sizes g. If its factors are too
// large, the product is a smaller k, at least half the hosts: the carriers of host k + j first fold their result into
// the carriers of host j, and receive the final result from these. For small buffers. Any number of ranks on any host.
// With L ranks on each of H hosts, c the largest power of two at most L and 8, R groups of sizes g, t(n) about log4 n:
//
//   rounds 2 t(L/c) + log2 c + R (1 + log2 c), and 2 more if k < H
//   scratch the most of n, n ceil(g/c), and n for each child in a tree
//   elements n times the messages: about log2 c + R log2 c + the sum of ceil(g/c) + 3 log4 (L/c) of them
//   crossing hosts n k (sum of g - 1) + 2 n c (H-k) in all
//
// Ruefenacht, Bull & Booth, "Generalisation of recursive doubling for AllReduce: now with simulation", Parallel
// Computing 2017; Huang et al., "PiP-MColl: process-in-process-based multi-object MPI collectives", CLUSTER 2023.
#include <algorithm>
#include <array>
#include <utility>

#include "collectives/algorithms/multiport.hpp"

namespace tutti {
namespace {

/// The sizes of the groups of hosts, and which results of a group each carrier folds.
class Groups {
 public:
  Groups(int hosts, int carriers) : carriers_(carriers) {
    int least = -1;
    const auto take_better = [&](const Groups& other) {
      if (other.fitting_ == 0 || (least >= 0 && other.time(hosts) >= least)) return;
      *this = other;
      least = other.time(hosts);
    };
    for (int each = 1; each <= 8; ++each) take_better(factored(hosts, carriers, each));
    for (int rounds = 1; rounds <= log2_ceil(hosts); ++rounds) take_better(below(hosts, carriers, rounds));
  }
  int fitting() const { return fitting_; }  ///< k: the product of the sizes
  int count() const { return count_; }
  int size(int i) const { return sizes_[static_cast<std::size_t>(i)]; }
  int doublings() const { return log2_floor(carriers_); }
  /// The most results of a group of `size` hosts that one carrier folds; its own host's result counts.
  int share(int size) const { return pieces::Ports::ceiling(size, carriers_); }
  /// The results of a group of `size` hosts that carrier `index` folds.
  Range shared(int size, int index) const {
    const int begin = std::min(index * share(size), size), end = std::min((index + 1) * share(size), size);
    return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)};
  }
  /// True if any carrier in this carrier's block of 2^doubling carriers has results.
  bool has_any(int size, int index, int doubling) const { return (index >> doubling << doubling) * share(size) < size; }
  /// True for the doubling that completes the sums: the last in which both carriers may have results.
  bool completes(int size, int doubling) const {
    return (1 << doubling) * share(size) < size && (2 << doubling) * share(size) >= size;
  }

  /// Rounds of a schedule in a group: an exchange, folds of the received results, and two for each doubling.
  int rounds(int size) const { return 1 + std::max(1, share(size) - 1) + 2 * doublings(); }
  int rounds() const {
    int sum = 0;
    for (int i = 0; i < count_; ++i) sum += rounds(size(i));
    return sum;
  }
  struct Place {
    int size, distance, round;
    bool is_first, is_last;
  };
  Place place(int round) const {
    int distance = 1;
    for (int i = 0;; ++i) {
      if (round < rounds(size(i))) return {size(i), distance, round, i == 0, i == count_ - 1};
      round -= rounds(size(i));
      distance *= size(i);
    }
  }
  /// The messages of a carrier in a group, one after another.
  int messages(int size) const { return carriers_ == 1 ? size - 1 : share(size); }

 private:
  /// The time in sends. A message takes as long as four sends, as in Ports.
  int time(int hosts) const {
    int sum = fitting_ < hosts ? 8 : 0;
    for (int i = 0; i < count_; ++i) sum += std::max(4 + messages(size(i)), 2 * messages(size(i)));
    return sum;
  }
  void add(int size) {
    sizes_[static_cast<std::size_t>(count_++)] = static_cast<unsigned char>(size);
    fitting_ *= size;
  }
  /// `hosts` as a product of sizes for which a carrier sends at most `each` messages. fitting_ is 0 if there is none.
  static Groups factored(int hosts, int carriers, int each) {
    Groups found;
    found.carriers_ = carriers;
    for (int size = carriers == 1 ? each + 1 : carriers * each; size > 1; --size)
      for (; hosts % size == 0; hosts /= size) found.add(size);
    if (hosts > 1) found.fitting_ = 0;
    return found;
  }
  /// The largest product <= `hosts` of `rounds` sizes that differ by at most one. fitting_ is 0 if a size is too large.
  static Groups below(int hosts, int carriers, int rounds) {
    Groups found;
    found.carriers_ = carriers;
    const int root = pieces::Ports::root_of(hosts, rounds);
    int lower = 0;
    if (root > most_in_group) {
      found.fitting_ = 0;
      return found;
    }
    const auto product = [&] {
      return pieces::Ports::power(root, rounds - lower) * pieces::Ports::power(root - 1, lower);
    };
    while (product() > hosts) ++lower;
    for (int i = 0; i < rounds; ++i)
      if (const int size = i < rounds - lower ? root : root - 1; size > 1) found.add(size);
    return found;
  }
  Groups() = default;

  static constexpr int most_in_group = 64;
  std::array<unsigned char, 31> sizes_{};
  int count_ = 0, carriers_ = 1, fitting_ = 1;
};

/// One carrier's part between the trees.
struct Carrier {
  Groups groups;
  const Hosts* hosts;
  std::size_t count;
  int host, index;

  Slice all() const { return out({0, count}); }
  Slice received(int i = 0) const { return scratch({times(i, count), count}); }
  int rank(int there, int carrier) const { return (*hosts)[there][static_cast<std::size_t>(carrier)]; }
  int peer(int doubling) const { return rank(host, index ^ 1 << doubling); }
  Step fold_doubled(int doubling, Slice mine) const {
    const bool is_lower = (index >> doubling & 1) == 0;
    return is_lower ? fold(all(), mine, received()) : fold(all(), received(), mine);
  }

  /// Round k of the doublings before the first group, whose input is `mine`.
  void double_first(int k, Slice mine, Round& round) const {
    if (k > 1) mine = all();
    if (k % 2 == 0) return round.add(send(peer(k / 2), mine), recv(peer(k / 2), received()));
    round.add(last(fold_doubled(k / 2, mine), hosts->count() == 1 && k / 2 == groups.doublings() - 1));
  }

  /// Makes round `here.round` of the rounds in a group.
  void multiply(const Groups::Place& here, Slice given, Round& round) const {
    const int digit = host / here.distance % here.size, folds = std::max(1, groups.share(here.size) - 1);
    const Range leaves = groups.shared(here.size, index);
    const int first = static_cast<int>(leaves.offset), mine = static_cast<int>(leaves.count);
    const pieces::InOrder order{{digit < first ? mine : digit - first, mine}, all(), here.is_first ? given : all()};
    if (here.round == 0) {
      const int share = groups.share(here.size);
      for (int turn = 0; turn < share; ++turn) {
        const int i = (digit + turn) % share;  // hosts of a group start with different peers
        if (i >= mine || first + i == digit) continue;
        const int there = rank(host + (first + i - digit) * here.distance, digit / share);
        round.add(send(there, order.mine), recv(there, order.contribution(i)));
      }
    } else if (const int k = here.round - 1; k < folds) {
      if (mine == 1 && k == 0) round.add(copy(all(), order.contribution(0)));
      const bool is_last = here.is_last && k == mine - 2 && groups.share(here.size) == here.size;
      if (k < mine - 1) round.add(last(order.fold_next(k), is_last));
    } else {
      double_shared(here, k - folds, round);
    }
  }
  void double_shared(const Groups::Place& here, int k, Round& round) const {
    const int doubling = k / 2;
    const bool mine = groups.has_any(here.size, index, doubling);
    const bool theirs = groups.has_any(here.size, index ^ 1 << doubling, doubling);
    if (k % 2 == 0) {
      if (mine) round.add(send(peer(doubling), all()));
      if (theirs) round.add(recv(peer(doubling), mine ? received() : all()));
    } else if (mine && theirs) {
      round.add(last(fold_doubled(doubling, all()), here.is_last && groups.completes(here.size, doubling)));
    }
  }
};

/// A carrier's part between the trees up and down: doublings inside its host, and the groups. Its input is `given`.
Schedule carry(const Carrier& self, Slice given) {
  const int hosts = self.hosts->count(), fitting = self.groups.fitting(), first = 2 * self.groups.doublings();
  const bool is_extra = self.host >= fitting, has_extra = self.host + fitting < hosts;
  const int across = hosts == 1 ? 0 : 2 + (is_extra ? 0 : self.groups.rounds());
  Schedule plan;
  plan.use_scratch(self.count);
  for (int i = 0; i < self.groups.count(); ++i)
    plan.use_scratch(times(self.groups.share(self.groups.size(i)), self.count));
  plan.rounds(first + across, [=](int k, Round& round) {
    if (k < first) return self.double_first(k, given, round);
    const Slice mine = first > 0 ? self.all() : given;
    const int other = is_extra ? self.host - fitting : self.host + fitting;
    const bool comes_first = k == first, comes_last = k == first + across - 1;
    if (is_extra || ((comes_first || comes_last) && has_extra)) {
      const int peer = self.rank(other, self.index);
      if (comes_first) return round.add(is_extra ? send(peer, mine) : recv_reduce(peer, self.all(), mine));
      return round.add(is_extra ? recv(peer, self.all()) : send(peer, self.all()));
    }
    if (!comes_first && !comes_last)
      self.multiply(self.groups.place(k - first - 1), has_extra ? self.all() : mine, round);
  });
  return plan;
}

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank);
  const pieces::Served served(hosts, host, index);
  const pieces::Node node = served.node(hosts[host]);
  Schedule whole;
  if (served.ring.size > 1) {
    whole = pieces::fold_up_at_once(node, s.count);
    if (served.columns > 1 || hosts.count() > 1) whole = std::move(whole).partial();
  } else if (s.size == 1) {
    return pieces::alone(s.count);
  }
  if (served.carries()) {
    const Slice given = served.ring.size > 1 ? out({0, s.count}) : in({0, s.count});
    whole.then(carry({Groups(hosts.count(), served.columns), &hosts, s.count, host, index}, given));
  }
  whole.then(pieces::hand_down(node, s.count));
  return whole;
}

/// The number of messages that the carriers of a host send to other hosts.
int crossings(const Groups& groups, int carriers, int host, int hosts) {
  if (host >= groups.fitting()) return carriers;
  int sum = host + groups.fitting() < hosts ? carriers : 0;
  for (int i = 0; i < groups.count(); ++i) sum += groups.size(i) - 1;
  return sum;
}

/// The number of messages that a carrier sends.
int sends(const Groups& groups, int host, int index, int hosts) {
  if (hosts == 1) return groups.doublings();
  if (host >= groups.fitting()) return groups.doublings() + 1;
  int sum = groups.doublings() + (host + groups.fitting() < hosts ? 1 : 0), distance = 1;
  for (int i = 0; i < groups.count(); ++i) {
    const int size = groups.size(i), digit = host / distance % size;
    distance *= size;
    const Range leaves = groups.shared(size, index);
    const auto begin = static_cast<int>(leaves.offset), count = static_cast<int>(leaves.count);
    sum += count - (digit >= begin && digit < begin + count ? 1 : 0);
    for (int k = 0; k < groups.doublings(); ++k) sum += groups.has_any(size, index, k) ? 1 : 0;
  }
  return sum;
}

int rounds_between(const Groups& groups, int hosts) {
  return hosts == 1 ? 0 : groups.count() + (groups.fitting() < hosts ? 2 : 0);
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int carriers = pieces::Served(hosts, 0, 0).columns;
  const Groups groups(hosts.count(), carriers);
  int messages = 0;
  for (int host = 0; host < hosts.count(); ++host)
    for (int index = 0; index < hosts.size_of(host); ++index) {
      const pieces::Served served(hosts, host, index);
      const auto children = static_cast<int>(pieces::knomial(served.ring, 0).children().size());
      const int own = index < carriers ? sends(groups, host, index, hosts.count()) : 1;
      messages = std::max(messages, children + own);
    }
  const int doublings = groups.doublings() * (1 + (hosts.count() > 1 ? groups.count() : 0));
  const int depth = pieces::knomial_depth(pieces::Ports::ceiling(hosts.largest(), carriers));
  return {2 * depth + doublings + rounds_between(groups, hosts.count()), times(messages, s.count)};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int carriers = pieces::Served(hosts, 0, 0).columns;
  const Groups groups(hosts.count(), carriers);
  Crossing what;
  for (int host = 0; host < hosts.count(); ++host) {
    const std::size_t elements = times(crossings(groups, carriers, host, hosts.count()), s.count);
    what.total += elements;
    what.most = std::max(what.most, elements);
  }
  return what;
}

Expense expense(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int carriers = pieces::Served(hosts, 0, 0).columns, count = hosts.count();
  const Groups groups(count, carriers);
  const int ranks = pieces::Ports::ceiling(hosts.largest(), carriers);
  const double n = static_cast<double>(s.count), children = pieces::knomial_children(ranks);
  const int doublings = groups.doublings() * (1 + (count > 1 ? groups.count() : 0));
  double in_turn = 0, folded = doublings + children;
  for (int i = 0; count > 1 && i < groups.count(); ++i) {
    in_turn += (1.0 + groups.messages(groups.size(i))) / 2;
    folded += groups.share(groups.size(i)) - 1;
  }
  const double crossed = count > 1 ? crossings(groups, carriers, 0, count) : 0;
  Expense one;
  one.load.within = {doublings + children, n * (doublings + children)};
  one.load.between = {in_turn + (groups.fitting() < count ? 2 : 0), n * crossed};
  one.load.folded = n * folded;
  one.chain = one.load;
  one.chain.within = {2.0 * pieces::knomial_depth(ranks) + doublings, n * (doublings + 2 * children)};
  one.chain.between.messages = rounds_between(groups, count);
  one.chain.between.elements += groups.fitting() < count ? n * carriers : 0;
  return one;
}

}  // namespace

extern const Algorithm allreduce_multiport{
    .kind = Kind::allreduce,
    .name = "multiport",
    .idea = "groups of hosts exchange results by all ranks of a host at once: the fewest rounds between them",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
    .expense = expense,
};

}  // namespace tutti
