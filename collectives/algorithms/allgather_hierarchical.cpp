// Hierarchical allgather. The ranks with the same local index on every host form a column. First each column runs a
// ring allgather across hosts; then the ranks of each host pass their column's blocks around a ring inside the host.
// Every block enters every host once, and all ranks of a host share its link. There are as many columns as the
// smallest host has ranks: extra ranks of larger hosts first send their blocks to the carrier of a column, and take
// part only inside the host. Any layout. With L ranks on each of H hosts, p = L H:
//
//   rounds H-1 + L-1, and 1 more where hosts differ     elements (H-1) n + (p-H) n, n the count of one block
//   scratch none     crossing p n (H-1) in all, (p-L) n from each host
//
// Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// A ring allgather among `members` in which bundle_of(i) are the ranks whose blocks member i brings. A block is not
/// sent back to its own rank.
template <typename BundleOf>
void circulate(Schedule& plan, const Blocks& block, Ring ring, const Members& members, BundleOf bundle_of) {
  plan.rounds(ring.size - 1, [=](int k, Round& round) {
    const int me = members[ring.rank], next = members[ring.next()], prev = members[ring.prev()];
    for (const int rank : bundle_of(modulo(ring.rank - k, ring.size)))
      if (rank != next) round.add(send(next, out(block[rank])));
    for (const int rank : bundle_of(modulo(ring.rank - k - 1, ring.size)))
      if (rank != me) round.add(recv(prev, out(block[rank])));
  });
}

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const Hosts* const all = &hosts;
  const Blocks block(s.count, s.size, s.out_blocks);
  const int rank = s.rank, host = hosts.host_of(rank), index = hosts.index_of(rank), columns = hosts.columns();

  Schedule gather;
  gather.round([=](Round& round) {
    const Slice mine = in({0, block[rank].count});
    round.add(copy(out(block[rank]), mine));
    if (index >= columns) return round.add(send((*all)[host][static_cast<std::size_t>(index % columns)], mine));
    for (const int extra : all->column(host, index))
      if (extra != rank) round.add(recv(extra, out(block[extra])));
  });
  if (index < columns)
    circulate(gather, block, {host, hosts.count()}, Members::across(hosts, index),
              [=](int h) { return all->column(h, index); });
  circulate(gather, block, {index, hosts.size_of(host)}, hosts[host],
            [=](int i) { return i < columns ? all->whole_column(i) : std::span<const int>(); });
  return gather;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int columns = hosts.columns();
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const Ring across{host, hosts.count()}, inside{index, hosts.size_of(host)};
    std::size_t sent = index < columns ? 0 : 1;
    if (index < columns && across.size > 1)  // all except the next host's own blocks
      sent += hosts.whole_column(index).size() - hosts.column(across.next(), index).size();
    if (inside.size > 1)  // all except the next rank's own blocks
      sent +=
          static_cast<std::size_t>(s.size) - (inside.next() < columns ? hosts.whole_column(inside.next()).size() : 1);
    blocks = std::max(blocks, sent);
  }
  const int rounds = hosts.count() - 1 + hosts.largest() - 1 + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  return {times(s.size * (hosts.count() - 1), s.count), times(s.size - hosts.smallest(), s.count)};
}

}  // namespace

extern const Algorithm allgather_hierarchical{
    .kind = Kind::allgather,
    .name = "hierarchical",
    .idea = "rings across hosts, then a ring on each: every block into every host once",
    .plan = plan,
    .cost = cost,
    .variable = true,
    .crossing = crossing,
};

}  // namespace tutti
