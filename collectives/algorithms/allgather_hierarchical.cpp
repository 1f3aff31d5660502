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

/// Blocks that are sent together, by rank.
using Bundle = std::vector<int>;

/// A ring allgather of every member's bundle among `members`. A block is not sent back to its own rank.
void circulate(Schedule& plan, const Blocks& block, Ring ring, std::span<const int> members,
               const std::vector<Bundle>& bundles) {
  const auto member = [&](int i) { return members[static_cast<std::size_t>(i)]; };
  const auto bundle = [&](int i) -> const Bundle& { return bundles[static_cast<std::size_t>(modulo(i, ring.size))]; };
  for (int k = 0; k < ring.size - 1; ++k) {
    std::vector<Step> steps;
    for (const int rank : bundle(ring.rank - k))
      if (rank != member(ring.next())) steps.push_back(send(member(ring.next()), out(block[rank])));
    for (const int rank : bundle(ring.rank - k - 1))
      if (rank != member(ring.rank)) steps.push_back(recv(member(ring.prev()), out(block[rank])));
    plan.round(std::move(steps));
  }
}

Bundle whole_column(const Hosts& hosts, int column) {
  Bundle all;
  for (int host = 0; host < hosts.count(); ++host)
    std::ranges::copy(hosts.column(host, column), std::back_inserter(all));
  return all;
}

Schedule plan(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  const Blocks block(s.count, s.size, s.out_counts);
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank), columns = hosts.columns();
  const std::span<const int> members = hosts[host];
  const Slice mine = in({0, block[s.rank].count});

  Schedule gather;
  std::vector<Step> first{copy(out(block[s.rank]), mine)};
  if (index >= columns) first.push_back(send(members[static_cast<std::size_t>(index % columns)], mine));
  if (index < columns)
    for (const int rank : hosts.column(host, index))
      if (rank != s.rank) first.push_back(recv(rank, out(block[rank])));
  gather.round(std::move(first));

  if (index < columns) {
    std::vector<Bundle> by_host;
    for (int h = 0; h < hosts.count(); ++h) by_host.push_back(hosts.column(h, index));
    circulate(gather, block, {host, hosts.count()}, hosts.across(index), by_host);
  }
  std::vector<Bundle> by_member(members.size());
  for (int i = 0; i < columns; ++i) by_member[static_cast<std::size_t>(i)] = whole_column(hosts, i);
  circulate(gather, block, {index, hosts.size_of(host)}, members, by_member);
  return gather;
}

Cost cost(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  const int columns = hosts.columns();
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const Ring across{host, hosts.count()}, inside{index, hosts.size_of(host)};
    std::size_t sent = index < columns ? 0 : 1;
    if (index < columns && across.size > 1)  // all except the next host's own blocks
      sent += whole_column(hosts, index).size() - hosts.column(across.next(), index).size();
    if (inside.size > 1)  // all except the next rank's own blocks
      sent +=
          static_cast<std::size_t>(s.size) - (inside.next() < columns ? whole_column(hosts, inside.next()).size() : 1);
    blocks = std::max(blocks, sent);
  }
  const int rounds = hosts.count() - 1 + hosts.largest() - 1 + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts hosts(s.host, s.size);
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
