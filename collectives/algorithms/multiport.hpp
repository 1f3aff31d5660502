// Multiport algorithms: the ranks of a host talk to different other hosts at the same time. For small buffers, whose
// time is that of messages one after another.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti::pieces {

/// The ranks of every host that talk to other hosts: those with the lowest local indices.
inline int carriers_of(const Hosts& hosts) noexcept { return std::min(hosts.columns(), 8); }

/// How rounds between hosts are cut: in each of `rounds`, every host talks to up to radix - 1 others, and each of its
/// carriers to up to `each` of these. radix^rounds is at least the number of hosts. More ports than carriers save
/// rounds, but a carrier sends to one after another. The best is taken, if a message takes four times as long as its
/// sending, with what the host's ranks exchange before the next round.
struct Ports {
  Ports(int hosts, int its_carriers) noexcept : carriers(its_carriers) {
    for (int tried = 1, least = 0; tried == 1 || tried <= log2_ceil(hosts); ++tried) {
      const int root = root_of(hosts, tried), messages = ceiling(std::max(root - 1, 1), carriers);
      const int time = tried * std::max(4 + messages, 2 * messages);  // in sendings: at most, it is all that it does
      if (tried > 1 && time >= least) continue;
      least = time;
      *this = {carriers, messages, root, tried};
    }
  }
  int carriers, each, radix, rounds;

  /// The messages that a round takes the time of: a carrier sends while its first one travels.
  double in_turn() const noexcept { return (1.0 + each) / 2; }

  static int ceiling(int n, int by) noexcept { return (n + by - 1) / by; }
  static std::int64_t power(int n, int exponent) noexcept {
    std::int64_t product = 1;
    for (; exponent > 0 && product < std::int64_t{1} << 31; --exponent) product *= n;
    return product;
  }
  /// The hosts that a host has heard of before this round.
  int before(int round) const noexcept { return static_cast<int>(power(radix, round)); }

  /// The smallest number of which this power is at least n; 2 at least.
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

/// What a k-nomial tree of radix 4 inside a host needs (see broadcast_multiport.cpp).
Node knomial(Ring ring, int root);
int knomial_depth(int size);      ///< messages from the root to the farthest rank
int knomial_depth_of(int label);  ///< to this one
int knomial_children(int size);   ///< of the root

/// Round k of ceil(log2 size) in which the ranks of a ring collect what each has: part i is that of rank i. Calls
/// send(peer, first, n) and receive(peer, first, n) for parts first, ..., first + n - 1. Where the number of ranks is a
/// power of two, these are one message; else two where they wrap around the last rank.
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

/// Carriers as a power of two, and the ranks of a host that one of them serves, itself first.
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

/// A rank's neighbours in a tree over hosts that all carriers of a host send in (see broadcast_multiport.cpp).
Node multiport_tree(const Shape& s);
/// Messages from its root to the farthest rank.
int multiport_depth(const Shape& s);
/// What a lane costs on its way up or down; up, it is folded.
Expense multiport_tree_expense(const Shape& s, bool up);

}  // namespace tutti::pieces
