// Multiport algorithms: the ranks of a host exchange messages with different other hosts at the same time. For small
// buffers, whose time depends on the number of messages that follow one another.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti::pieces {

/// The number of ranks of every host that exchange messages with other hosts: those with the lowest local indices.
inline int carriers_of(const Hosts& hosts) noexcept { return std::min(hosts.columns(), 8); }

/// The rounds between hosts. In each of `rounds` rounds, every host exchanges messages with up to radix - 1 other
/// hosts, and each of its carriers with up to `each` of these. radix^rounds is at least the number of hosts. With a
/// larger radix there are fewer rounds, but a carrier may send several messages one after another. The constructor
/// chooses the fastest. It assumes that a message, with the exchange inside the host before the next round, takes as
/// long as four sends.
struct Ports {
  Ports(int hosts, int its_carriers) noexcept : carriers(its_carriers) {
    for (int tried = 1, least = 0; tried == 1 || tried <= log2_ceil(hosts); ++tried) {
      const int root = root_of(hosts, tried), messages = ceiling(std::max(root - 1, 1), carriers);
      const int time = tried * std::max(4 + messages, 2 * messages);  // in sends; 2 * messages: all sends and receives
      if (tried > 1 && time >= least) continue;
      least = time;
      *this = {carriers, messages, root, tried};
    }
  }
  int carriers, each, radix, rounds;

  /// The number of messages whose time a round takes. A carrier's first message counts as one; each further one counts
  /// half, because it is sent while the first one travels.
  double in_turn() const noexcept { return (1.0 + each) / 2; }

  static int ceiling(int n, int by) noexcept { return (n + by - 1) / by; }
  static std::int64_t power(int n, int exponent) noexcept {
    std::int64_t product = 1;
    for (; exponent > 0 && product < std::int64_t{1} << 31; --exponent) product *= n;
    return product;
  }
  /// The number of hosts, including itself, whose data a host has before this round.
  int before(int round) const noexcept { return static_cast<int>(power(radix, round)); }

  /// The smallest number >= 2 whose power with this exponent is at least n.
  static int root_of(int n, int exponent) noexcept {
    int low = 2, high = std::max(n, 2);
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (power(middle, exponent) >= n)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

 private:
  Ports(int its_carriers, int messages, int root, int tried) noexcept
      : carriers(its_carriers), each(messages), radix(root), rounds(tried) {}
};

/// A k-nomial tree of radix 4, used inside a host (see broadcast_multiport.cpp).
Node knomial(Ring ring, int root);
int knomial_depth(int size);      ///< the number of messages from the root to the farthest rank
int knomial_depth_of(int label);  ///< the number of messages from the root to this label
int knomial_children(int size);   ///< the number of the root's children

/// Round k of an allgather in ceil(log2 size) rounds among the ranks of a ring; part i is the part of rank i. Calls
/// send(peer, first, n) and receive(peer, first, n) for parts first, ..., first + n - 1: once, or twice if the parts
/// wrap around the last rank. They do not if the number of ranks is a power of two.
template <typename Send, typename Receive>
void collect_parts(Ring ring, int k, Send send, Receive receive) {
  const int have = 1 << k;
  if (power_of_two_below(ring.size) == ring.size) {
    const int begin = ring.rank & ~(have - 1), peer = ring.rank ^ have;
    send(peer, begin, have);
    receive(peer, begin ^ have, have);
    return;
  }
  const int more = std::min(have, ring.size - have);
  const auto each = [&](int first, auto take) {
    const int begin = modulo(first, ring.size), until = std::min(more, ring.size - begin);
    take(begin, until);
    if (more > until) take(0, more - until);
  };
  each(ring.rank, [&](int first, int n) { send(modulo(ring.rank - have, ring.size), first, n); });
  each(ring.rank + have, [&](int first, int n) { receive(modulo(ring.rank + have, ring.size), first, n); });
}

/// The division of a host's ranks among its carriers, whose number `columns` is a power of two. `ring` are the ranks
/// that one carrier serves, with the carrier as rank 0; ring.rank is this rank's index among them.
struct Served {
  Served(const Hosts& hosts, int host, int index) noexcept
      : columns(power_of_two_below(carriers_of(hosts))),
        column(index % columns),
        ring{index / columns, Ports::ceiling(hosts.size_of(host) - column, columns)} {}
  int columns, column;
  Ring ring;
  bool carries() const noexcept { return ring.rank == 0; }
  /// This rank's neighbours in a k-nomial tree from the carrier.
  Node node(std::span<const int> members) const;
};

/// A rank's neighbours in a tree over hosts in which all carriers of a host send (see broadcast_multiport.cpp).
Node multiport_tree(const Shape& s);
/// The number of messages from the root of that tree to the farthest rank.
int multiport_depth(const Shape& s);
/// The expense of a part of the buffer that goes up the tree and folds (`up`), or down the tree.
Expense multiport_tree_expense(const Shape& s, bool up);

}  // namespace tutti::pieces
