// Multiport allgather: Bruck's with radix r over hosts, in which several ranks of a host send to different hosts at the
// same time. First the ranks of every host collect their blocks. Before a round between hosts, a host has the blocks of
// `have` hosts, its own and those after it. It sends them to the hosts d * have behind, 0 < d < r, and receives the
// blocks that follow from the hosts d * have ahead. Up to eight ranks of a host, its carriers, do so, each for
// consecutive d. Then they share the received blocks by doubling. Blocks are packed, ordered by host from the own host
// on. At the end carriers send the blocks of other hosts to the other ranks of their host by trees, and copies put all
// blocks in their places. For small blocks. For any placement of ranks. With L ranks on each of H hosts, p = L H, c the
// largest power of two at most L and 8, R = ceil(log_r H) with r about c + 1:
//
//   rounds ceil(log2 L) + R (1 + log2 c) + log4 (L/c)     scratch p n, n the count of one block
//   elements about 2 p n, and 3 p n log4 (L/c) if L > c     crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997; Huang et al., "PiP-MColl: process-in-process-based multi-object MPI
// collectives", CLUSTER 2023.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/packed_hosts.hpp"

namespace tutti {
namespace {

struct Gatherer : pieces::PackedHosts {
  using PackedHosts::PackedHosts;

  void collect_inside(int k, Round& round) const {
    pieces::collect_parts(
        inside(), k, [&](int peer, int first, int n) { round.add(send(member(peer), of_ranks(first, n))); },
        [&](int peer, int first, int n) { round.add(recv(member(peer), of_ranks(first, n))); });
  }
  void gather(int k, Round& round) const {
    const int each = 1 + doublings(), have = ports.before(k / each);
    if (k % each == 0)
      return each_port(have, [&](int distance, int n) {
        round.add(send(across(-distance), of_hosts(0, n)), recv(across(distance), of_hosts(distance, distance + n)));
      });
    pieces::collect_parts(
        carriers(), k % each - 1,
        [&](int peer, int first, int n) { round.add(send(member(peer), shared(have, first, n))); },
        [&](int peer, int first, int n) { round.add(recv(member(peer), shared(have, first, n))); });
  }
  /// Sends the blocks of other hosts from a carrier to the ranks that it serves.
  Schedule hand_down() const {
    const pieces::Node node = served.node(members());
    const Slice others = of_hosts(1, hosts->count());
    Schedule plan;
    if (node.parent >= 0) plan.round([=, parent = node.parent](Round& round) { round.add(recv(parent, others)); });
    plan.round([=](Round& round) {
      for (const int child : node.children()) round.add(send(child, others));
    });
    return plan;
  }
};

Schedule plan(const Shape& s) {
  const Gatherer self(s, s.rank);
  Schedule gather;
  gather.use_scratch(self.all().count);
  gather.round([=](Round& round) { round.add(copy(self.of_ranks(self.index, 1), in({0, self.count}))); });
  gather.rounds(log2_ceil(self.inside().size), [=](int k, Round& round) { self.collect_inside(k, round); });
  if (self.hosts->count() > 1) {
    if (self.served.carries())
      gather.rounds(self.ports.rounds * (1 + self.doublings()), [=](int k, Round& round) { self.gather(k, round); });
    gather.then(self.hand_down());
  }
  gather.round([=](Round& round) {
    self.each_run(Memory::out, [&](Slice packed, Slice blocks) { round.add(copy(blocks, packed)); });
  });
  return gather;
}

/// Elements that a rank sends.
std::size_t sent(const Gatherer& self) {
  std::size_t sum = times(self.inside().size - 1, self.count);
  if (self.hosts->count() == 1) return sum;
  const std::size_t children = pieces::knomial(self.served.ring, 0).children().size();
  sum += children * self.of_hosts(1, self.hosts->count()).count;
  if (!self.served.carries()) return sum;
  for (int k = 0; k < self.ports.rounds; ++k) {
    const int have = self.ports.before(k);
    self.each_port(have, [&](int, int n) { sum += self.of_hosts(0, n).count; });
    for (int i = 0; i < self.doublings(); ++i) sum += self.shared(have, self.index >> i << i, 1 << i).count;
  }
  return sum;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t elements = 0;
  for (int rank = 0; rank < s.size; ++rank) elements = std::max(elements, sent({s, rank}));
  const int collecting = log2_ceil(hosts.largest());
  if (hosts.count() == 1) return {collecting, elements};
  const Gatherer any(s, 0);
  const int down = pieces::knomial_depth(pieces::Ports::ceiling(hosts.largest(), any.served.columns));
  return {collecting + any.ports.rounds * (1 + any.doublings()) + down, elements};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what{.total = pieces::every_block_once(s)};
  for (int host = 0; host < hosts.count(); ++host) {
    const Gatherer one(s, hosts[host][0]);
    std::size_t elements = 0;
    for (int k = 0; k < one.ports.rounds; ++k) {
      const int have = one.ports.before(k);
      for (int d = 1; d <= one.others(have); ++d)
        elements += one.of_hosts(0, std::min(have, hosts.count() - d * have)).count;
    }
    what.most = std::max(what.most, elements);
  }
  return what;
}

Expense expense(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const Gatherer any(s, 0);
  const bool are_several = hosts.count() > 1;
  const int ranks = pieces::Ports::ceiling(hosts.largest(), any.served.columns);
  const double n = static_cast<double>(s.count), p = s.size, rounds = are_several ? any.ports.rounds : 0;
  const double children = are_several ? pieces::knomial_children(ranks) : 0;
  Expense one;
  one.load.within.messages = log2_ceil(hosts.largest()) + rounds * any.doublings() + children;
  one.load.within.elements = n * (hosts.largest() - 1) + static_cast<double>(any.inside_chain()) + children * p * n;
  one.load.between = {rounds * any.ports.in_turn(), (p - p / hosts.count()) * n};
  one.load.folded = p * n;
  one.chain = one.load;
  one.chain.between.messages = rounds;
  return one;
}

}  // namespace

extern const Algorithm allgather_multiport{
    .kind = Kind::allgather,
    .name = "multiport",
    .idea = "Bruck's over hosts, all ranks of a host sending to different ones: the fewest rounds, for small blocks",
    .plan = plan,
    .cost = cost,
    .lanes = false,  // cutting the small blocks into parts (lanes) would only make these wait for one another
    .crossing = crossing,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
