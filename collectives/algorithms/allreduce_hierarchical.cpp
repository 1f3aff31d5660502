// Hierarchical allreduce. A reduce-scatter on every host leaves each rank with the host's sum of one chunk; the ranks
// of all hosts that have the same chunk allreduce it; an allgather on every host collects the chunks. All ranks of a
// host share its link to the others, and the number of elements that cross hosts is minimal. If hosts are grouped by
// racks, the allreduce between hosts has the same three phases: inside each rack, across racks, inside each rack. With
// R racks of equal sizes, each rack then sends 2n(R-1)/R, which is minimal too. There are as many chunks as the
// smallest host has ranks: extra ranks of larger hosts own none and only forward. All phases are rings. With L ranks on
// each of H hosts, p = L H:
//
//   rounds 2(L-1) + 2(H-1), with R racks 2(L-1) + 2(H/R-1) + 2(R-1)
//   elements about 2n(L-1)/L + 2n(H-1)/p     scratch none
//   crossing hosts 2n(H-1) in all, from each host about 2n(H-1)/H, the least there can be
//
// Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018 (2D torus); Träff & Hunold,
// "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank);
  const std::span<const int> members = hosts[host];
  const Ring ring{hosts.index_of(s.rank), hosts.size_of(host)};
  const Blocks block = pieces::chunks_inside(s.count, hosts.columns(), ring.size);
  const Range mine = block[ring.rank];

  Schedule whole = pieces::fold_around(ring, block).on(members);
  if (hosts.count() > 1) whole = std::move(whole).partial();
  if (ring.rank < hosts.columns()) {
    const Shape above{.rank = host, .size = hosts.count(), .count = mine.count, .hosts = hosts.above()};
    Schedule across = above.hosts != nullptr ? plan(above) : pieces::allreduce_ring(above);
    if (ring.size > 1) across = std::move(across).in_place();
    whole.then(std::move(across).on(Members::across(hosts, ring.rank), mine.offset));
  }
  whole.then(pieces::circulate(ring, block, out(mine)).on(members));
  return whole;
}

/// Elements that a rank sends in a ring allreduce: twice the buffer, less its own chunk and the chunk of its successor.
std::size_t around(const Blocks& block, int rank) {
  if (block.parts() == 1) return 0;
  return 2 * block.total() - block[rank].count - block[rank + 1].count;
}

/// Elements of a chunk that a host sends to others.
std::size_t across(std::size_t chunk, const Hosts& hosts, int host) {
  const Hosts* const racks = hosts.above();
  if (racks == nullptr) return around(Blocks(Chunks(chunk, hosts.count())), host);
  const int rack = racks->host_of(host), index = racks->index_of(host);
  const Blocks block = pieces::chunks_inside(chunk, racks->columns(), racks->size_of(rack));
  return around(block, index) + across(block[index].count, *racks, rack);
}

/// The rounds of one reduce-scatter or allgather around the rings of all levels.
int hops(const Hosts& hosts) {
  return hosts.largest() - 1 + (hosts.above() != nullptr ? hops(*hosts.above()) : hosts.count() - 1);
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t elements = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const Blocks block = pieces::chunks_inside(s.count, hosts.columns(), hosts.size_of(host));
    elements = std::max(elements, around(block, index) + across(block[index].count, hosts, host));
  }
  return {2 * hops(hosts), elements};
}

Crossing crossing(const Shape& s) { return pieces::crossing_by_chunks(s, across); }

Expense expense_of(const Hosts& hosts, expenses::Links links, double count) {
  using namespace expenses;
  const double chunk = count / hosts.columns(), part = chunk / hosts.count();
  const Links farther = above(links, hosts);
  Expense sum = ring(links, hosts.largest() - 1, chunk, true);
  sum = hosts.above() != nullptr
            ? sum + expense_of(*hosts.above(), farther, chunk)
            : sum + ring(farther, hosts.count() - 1, part, true) + ring(farther, hosts.count() - 1, part);
  return sum + ring(links, hosts.largest() - 1, chunk);
}

/// The number of parts of the buffer, after each chunk is divided among the hosts.
int parts(const Hosts& hosts) {
  return hosts.columns() * (hosts.above() != nullptr ? parts(*hosts.above()) : hosts.count());
}

}  // namespace

extern const Algorithm allreduce_hierarchical{
    .kind = Kind::allreduce,
    .name = "hierarchical",
    .idea = "reduce-scatter on each host, a chunk per rank across hosts, allgather: the least between hosts",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
    .parts = [](const Shape& s) { return parts(hosts_of(s)); },
    .expense = [](const Shape& s) { return expense_of(hosts_of(s), expenses::inside, expenses::number(s.count)); },
    .alike = true,
    .racks = true,
};

}  // namespace tutti
