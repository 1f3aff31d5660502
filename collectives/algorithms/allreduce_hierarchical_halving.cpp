// Hierarchical halving allreduce. On every host each rank sends every chunk to its owner, which folds the host's
// contributions in rank order. The ranks of all hosts that own the same chunk reduce-scatter it by halving and collect
// it by doubling, which works for any number of hosts. If hosts are grouped by racks, halving and doubling run inside
// each rack, and between the two the owners of the same part in all racks do the same across racks; then each of R
// racks sends 2n(R-1)/R. At the end each owner sends its chunk to all ranks of its host. So the ranks of a host share
// its link, the elements that cross hosts are minimal, and there are few rounds. There are as many chunks as the
// smallest host has ranks; extra ranks of larger hosts own none. With L ranks on each of H hosts, p = L H:
//
//   rounds 2 ceil(log2 H), and 2 more if L > 1     elements about 2n(L-1)/L + 2n(H-1)/p     scratch n(L-1)/L
//   crossing hosts 2n(H-1) in all, from each host about 2n(H-1)/H, the least there can be
//
// Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Träff, "Optimal, non-pipelined
// reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024; Träff & Hunold, "Decomposing MPI collectives for
// exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/halving.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// The parts of a chunk: one for each host of the rack or, without racks, one for each host.
pieces::InRing parts(std::size_t chunk, const Hosts& hosts, int host) {
  const Hosts* const racks = hosts.above();
  if (racks == nullptr) return {{host, hosts.count()}, Blocks(Chunks(chunk, hosts.count()))};
  const Ring ring{racks->index_of(host), racks->size_of(racks->host_of(host))};
  return {ring, pieces::chunks_inside(chunk, racks->columns(), ring.size)};
}

/// Allreduce of a chunk among one rank of each host. The contributions are in the memory `given`.
Schedule among_hosts(std::size_t chunk, const Hosts& hosts, int host, Memory given) {
  const pieces::InRing at = parts(chunk, hosts, host);
  Schedule there, back;
  const pieces::Neighbours neighbours{at.ring};
  pieces::Halving(pieces::Doubling(at.ring.size, 0, 2), neighbours, at, given, 0).append_to(there);
  pieces::collect_by_doubling(back, at.ring.size, 2, neighbours, at);
  const Hosts* const racks = hosts.above();
  if (racks == nullptr) return std::move(there.then(back));
  const int rack = racks->host_of(host);
  const Range mine = at.block[at.ring.rank];
  Schedule whole = std::move(there).partial().on((*racks)[rack]);
  if (at.ring.rank < racks->columns())
    whole.then(among_hosts(mine.count, *racks, rack, at.ring.size > 1 ? Memory::out : given)
                   .on(Members::across(*racks, at.ring.rank), mine.offset));
  return std::move(whole.then(std::move(back).on((*racks)[rack])));
}

Schedule plan(const Shape& s) {
  if (s.size == 1) return pieces::alone(s.count);
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank);
  const std::span<const int> members = hosts[host];
  const Ring ring{hosts.index_of(s.rank), hosts.size_of(host)};
  const Blocks block = pieces::chunks_inside(s.count, hosts.columns(), ring.size);
  const Range mine = block[ring.rank];

  Schedule whole;
  if (ring.size > 1) whole = pieces::fold_at_owners(ring, block, out(mine)).on(members);
  if (hosts.count() > 1) whole = std::move(whole).partial();
  if (ring.rank < hosts.columns()) {
    Schedule across = among_hosts(mine.count, hosts, host, ring.size > 1 ? Memory::out : Memory::in);
    whole.then(std::move(across).on(Members::across(hosts, ring.rank), mine.offset));
  }
  whole.then(pieces::give_to_all(ring, block, out(mine)).on(members));
  return whole;
}

/// Elements that the owner of a chunk sends to other hosts.
std::size_t across(std::size_t chunk, const Hosts& hosts, int host) {
  const pieces::InRing at = parts(chunk, hosts, host);
  std::size_t sent = at.elements(1, at.ring.size - 1);
  sent += pieces::sent_by_doubling(at.ring.size, 2, [&](int first, int n) { return at.elements(first, n); });
  const Hosts* const racks = hosts.above();
  return racks == nullptr ? sent : sent + across(at.block[at.ring.rank].count, *racks, racks->host_of(host));
}

int doublings(const Hosts& hosts) {
  const Hosts* const racks = hosts.above();
  return racks == nullptr ? log2_ceil(hosts.count()) : log2_ceil(racks->largest()) + doublings(*racks);
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t elements = 0;
  for (int host = 0; host < hosts.count(); ++host) {
    const int ranks = hosts.size_of(host);
    const Blocks block = pieces::chunks_inside(s.count, hosts.columns(), ranks);
    for (int index = 0; index < ranks; ++index) {
      const std::size_t chunk = block[index].count;
      const std::size_t inside = ranks == 1 ? 0 : s.count - chunk + times(ranks - 1, chunk);
      elements = std::max(elements, inside + across(chunk, hosts, host));
    }
  }
  return {2 * doublings(hosts) + (hosts.largest() > 1 ? 2 : 0), elements};
}

Crossing crossing(const Shape& s) { return pieces::crossing_by_chunks(s, across); }

/// The expense of among_hosts() on these links.
Expense expense_of(const Hosts& hosts, expenses::Links links, double chunk) {
  const Hosts* const racks = hosts.above();
  const int ranks = racks == nullptr ? hosts.count() : racks->largest();
  const double h = racks == nullptr ? ranks : racks->columns();
  const Expense sum = expenses::exchange(links, 2 * log2_ceil(ranks), 2 * chunk * (h - 1) / h, chunk * (h - 1) / h);
  using expenses::operator+;
  return racks == nullptr ? sum : sum + expense_of(*racks, expenses::above(links, *racks), chunk / h);
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double others = hosts.largest() - 1, chunk = number(s.count) / hosts.columns();
  return at_once(inside, others, others * chunk, others * chunk) + expense_of(hosts, above(inside, hosts), chunk) +
         at_once(inside, others, others * chunk);
}

int least_parts(const Hosts& hosts) {
  return hosts.columns() * (hosts.above() != nullptr ? least_parts(*hosts.above()) : hosts.count());
}

}  // namespace

extern const Algorithm allreduce_hierarchical_halving{
    .kind = Kind::allreduce,
    .name = "hierarchical_halving",
    .idea = "every chunk to its owner on each host, then halving and doubling across hosts: little data in few rounds",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
    .parts = [](const Shape& s) { return least_parts(hosts_of(s)); },
    .expense = expense,
    .racks = true,
};

}  // namespace tutti
