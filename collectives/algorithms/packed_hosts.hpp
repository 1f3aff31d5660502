// The order of all ranks' blocks in the scratch of multiport allgather and reduce-scatter, and which of them each
// carrier exchanges. Carriers are the ranks of a host that exchange messages with other hosts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "collectives/algorithms/multiport.hpp"

namespace tutti::pieces {

/// The blocks of all ranks in scratch from its beginning. They are ordered by host, start with this rank's host and
/// wrap around, so that the blocks of a message between hosts are contiguous. In a round between hosts, `have` is the
/// number of hosts whose blocks a host has before the round (allgather), or for which it has sums after the round
/// (reduce-scatter). Hosts exchange messages at distances d * have, d = 1, 2, ...; each carrier takes consecutive d.
/// Plain data.
struct PackedHosts {
  PackedHosts(const Shape& s, int its_rank)
      : hosts(&hosts_of(s)),
        count(s.count),
        size(s.size),
        host(hosts->host_of(its_rank)),
        index(hosts->index_of(its_rank)),
        served(*hosts, host, index),
        ports(hosts->count(), served.columns) {}

  std::span<const int> members() const { return (*hosts)[host]; }
  int member(int i) const { return members()[static_cast<std::size_t>(i)]; }
  Ring inside() const { return {index, hosts->size_of(host)}; }
  Ring carriers() const { return {index, served.columns}; }
  int doublings() const { return log2_floor(served.columns); }
  /// The rank with this rank's local index on the host at this distance, which is between -hosts and hosts.
  int across(int distance) const {
    return (*hosts)[modulo(host + distance - (distance > 0 ? hosts->count() : 0), hosts->count())]
                   [static_cast<std::size_t>(index)];
  }

  Slice all() const { return of_hosts(0, hosts->count()); }
  Slice of_hosts(int first, int until) const { return scratch({before(first), before(until) - before(first)}); }
  Slice of_ranks(int first, int n) const { return scratch({times(first, count), times(n, count)}); }

  /// The number of other hosts that a host exchanges messages with in a round; and the most of these for one carrier.
  int others(int have) const { return std::min(ports.radix, Ports::ceiling(hosts->count(), have)) - 1; }
  int share(int have) const { return Ports::ceiling(others(have), served.columns); }
  /// The blocks that carriers carrier, ..., carrier + n - 1 receive in a round (allgather) or send (reduce-scatter).
  Slice shared(int have, int carrier, int n) const {
    const auto begin = [&](int c) {
      const std::int64_t distance = std::int64_t{1 + std::min(c * share(have), others(have))} * have;
      return static_cast<int>(std::min<std::int64_t>(distance, hosts->count()));
    };
    return of_hosts(begin(carrier), begin(carrier + n));
  }
  /// Calls each(distance, n) for every host that this carrier exchanges messages with: its distance, and the number of
  /// hosts whose blocks are in the message.
  template <typename Each>
  void each_port(int have, Each each) const {
    const int begin = index * share(have);
    for (int d = begin + 1; d <= std::min(begin + share(have), others(have)); ++d)
      each(d * have, std::min(have, hosts->count() - d * have));
  }

  /// Calls each(packed, in_order) for every group of packed blocks at equal distances in rank order. `in_order` are
  /// their places in `memory`, where blocks are in rank order.
  template <typename Each>
  void each_run(Memory memory, Each each) const {
    const auto ranks_of_all = std::span((*hosts)[0].data(), static_cast<std::size_t>(size));
    const auto begin = static_cast<std::size_t>(hosts->before(host));
    std::size_t at = 0;
    for (const auto& ranks : {ranks_of_all.subspan(begin), ranks_of_all.first(begin)})
      for (std::size_t i = 0, next = 0; i < ranks.size(); at += next - i, i = next) {
        const std::ptrdiff_t stride = i + 1 < ranks.size() ? ranks[i + 1] - ranks[i] : 1;
        for (next = i + 1; next < ranks.size() && ranks[next] - ranks[next - 1] == stride;) ++next;
        const std::size_t elements = (next - i) * count;
        const Slice blocks{memory, times(ranks[i], count), elements};
        each(scratch({at * count, elements}),
             count == 0 ? blocks : in_runs(blocks, count, stride * static_cast<std::ptrdiff_t>(count)));
      }
  }

  /// The elements of the messages inside a host, one after another, that belong to the rounds between hosts.
  std::size_t inside_chain() const {
    std::size_t sum = 0;
    for (int k = 0; hosts->count() > 1 && k < ports.rounds; ++k)
      for (int i = 0; i < doublings(); ++i) sum += shared(ports.before(k), 0, 1 << i).count;
    return sum;
  }

  const Hosts* hosts;
  std::size_t count;  ///< of a block
  int size, host, index;
  Served served;
  Ports ports;

 private:
  /// The elements of the `distance` hosts from this rank's host on.
  std::size_t before(int distance) const {
    const int other = host + distance, ranks = hosts->before(host);
    const int sum =
        other <= hosts->count() ? hosts->before(other) - ranks : hosts->before(other - hosts->count()) + size - ranks;
    return times(sum, count);
  }
};

}  // namespace tutti::pieces
