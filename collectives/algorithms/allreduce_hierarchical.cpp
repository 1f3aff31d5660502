// Hierarchical allreduce. A reduce-scatter on every host leaves each rank with the host's sum of one chunk; the ranks
// of all hosts that have the same chunk allreduce it; an allgather on every host collects the chunks. All ranks of a
// host share its link to the others, and the number of elements that cross hosts is minimal. There are as many chunks
// as the smallest host has ranks: extra ranks of larger hosts own none and only forward. All phases are rings. With L
// ranks on each of H hosts, p = L H:
//
//   rounds 2(L-1) + 2(H-1)     elements about 2n(L-1)/L + 2n(H-1)/p     scratch none
//   crossing 2n(H-1) in all, from each host about 2n(H-1)/H, the least there can be
//
// Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018 (2D torus); Träff & Hunold,
// "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// The chunks of a host's ranks: the first `columns` ranks have one, the others an empty one.
Blocks chunks_inside(std::size_t count, int columns, int ranks) { return {Chunks(count, columns), ranks}; }

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank);
  const std::span<const int> members = hosts[host];
  const Ring ring{hosts.index_of(s.rank), hosts.size_of(host)};
  const Blocks block = chunks_inside(s.count, hosts.columns(), ring.size);
  const Range mine = block[ring.rank];

  Schedule whole = pieces::fold_around(ring, block).on(members);
  if (hosts.count() > 1) whole = std::move(whole).partial();
  if (ring.rank < hosts.columns()) {
    Schedule across = pieces::allreduce_ring({.rank = host, .size = hosts.count(), .count = mine.count});
    if (ring.size > 1) across = std::move(across).in_place();
    whole.then(std::move(across).on(Members::across(hosts, ring.rank), mine.offset));
  }
  whole.then(pieces::circulate(ring, block, out(mine)).on(members));
  return whole;
}

/// Elements that a rank sends in a ring allreduce: twice the buffer, except the chunk that it ends with and the chunk
/// that its successor already has.
std::size_t around(const Blocks& block, int rank) {
  if (block.parts() == 1) return 0;
  return 2 * block.total() - block[rank].count - block[rank + 1].count;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t elements = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const Blocks block = chunks_inside(s.count, hosts.columns(), hosts.size_of(host));
    const std::size_t inside = around(block, index);
    elements = std::max(elements, inside + around(Blocks(Chunks(block[index].count, hosts.count())), host));
  }
  return {2 * (hosts.largest() - 1 + hosts.count() - 1), elements};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const Chunks chunk(s.count, hosts.columns());
  Crossing what{.total = times(2 * (hosts.count() - 1), s.count)};
  // the last host but one sends most: all but the two smallest parts of each chunk
  for (int i = 0; i < hosts.columns(); ++i)
    what.most += around(Blocks(Chunks(chunk[i].count, hosts.count())), hosts.count() - 2);
  return what;
}

}  // namespace

extern const Algorithm allreduce_hierarchical{
    .kind = Kind::allreduce,
    .name = "hierarchical",
    .idea = "reduce-scatter on each host, a chunk per rank across hosts, allgather: the least between hosts",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
    .parts = [](const Shape& s) { return hosts_of(s).columns() * hosts_of(s).count(); },
};

}  // namespace tutti
