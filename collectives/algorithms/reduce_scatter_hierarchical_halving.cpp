// Hierarchical halving reduce-scatter: the hierarchical Bruck allgather in reverse. The ranks with the same local index
// on every host form a column. On every host each rank sends the blocks of every column, packed, to the column's rank
// on its host, the carrier, which folds the host's contributions in rank order; then each column reduce-scatters the
// hosts' sums by halving. There are as many columns as the smallest host has ranks: extra ranks of larger hosts receive
// their blocks from a carrier at the end. For any placement of ranks. With L ranks on each of H hosts, p = L H:
//
//   rounds ceil(log4 H), or ceil(log2 H) if H n > 16 Ki elements, 1 more if L > 1, and 1 more if ranks per host differ
//   elements (p-H) n + (H-1) n, n the count of one block     scratch p n + (p-H) n
//   crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024; Träff & Hunold,
// "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/column.hpp"
#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/halving.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

using pieces::PackedColumns;

int radix(const Shape& s) { return pieces::radix_for(times(hosts_of(s).count(), s.count)); }

void pack_by_column(const PackedColumns& all, Round& round) {
  for (int column = 0; column < all.hosts().columns(); ++column)
    all.each_group(column, [&](Slice packed, int rank, std::ptrdiff_t stride) {
      round.add(copy(packed, all.spread(Memory::in, rank, packed, stride)));
    });
}

/// Sends every column's blocks to its carrier, which folds the contributions in rank order.
Schedule fold_inside(const PackedColumns& all) {
  const Ring ring = all.inside();
  const Slice sums = all.carries() ? all.column(ring.rank) : Slice{};
  const pieces::InOrder order{ring, sums, sums, all.total()};
  Schedule plan;
  if (ring.size == 1) return plan;
  plan.round([=](Round& round) {
    for (int k = 1; k < ring.size; ++k) {
      const int ahead = modulo(ring.rank + k, ring.size);
      if (ahead < all.hosts().columns()) round.add(send(ahead, all.column(ahead)));
    }
    if (all.carries()) order.receive(round);
  });
  if (all.carries()) order.fold_received(plan);
  return plan;
}

/// Copies this rank's block to `out`, and sends their blocks to the ranks that it serves.
void deliver(const PackedColumns& all, Slice result, Round& round) {
  if (!all.carries()) return round.add(recv(all.carrier(), result));
  round.add(copy(result, all.own(0)));
  for (std::size_t i = 1; i < all.served().size(); ++i) round.add(send(all.served()[i], all.own(i)));
}

Schedule plan(const Shape& s) {
  const PackedColumns all(s, s.in_blocks);
  const Hosts& hosts = all.hosts();
  Schedule whole;
  whole.use_scratch(all.total());
  whole.round([=](Round& round) { pack_by_column(all, round); });
  Schedule inside = fold_inside(all).on(hosts[all.host()]);
  if (hosts.count() > 1) inside = std::move(inside).partial();
  whole.then(inside);
  if (all.carries()) {
    Schedule across;
    pieces::Halving(pieces::Doubling(hosts.count(), 0, radix(s)), pieces::Neighbours{all.across()}, all,
                    Memory::scratch, all.total())
        .append_to(across);
    whole.then(std::move(across).on(Members::across(hosts, all.index())));
  }
  const Slice result = out({0, all.block()[s.rank].count});
  whole.round([=](Round& round) { deliver(all, result, round); });
  return whole;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t blocks = 0;
  for (int host = 0; host < hosts.count(); ++host)
    for (int index = 0; index < hosts.size_of(host); ++index) {
      const bool carries = index < hosts.columns();
      const std::size_t column = carries ? hosts.whole_column(index).size() : 0;
      const std::size_t own = carries ? hosts.column(host, index).size() : 0;
      std::size_t sent = hosts.size_of(host) > 1 ? static_cast<std::size_t>(s.size) - column : 0;
      if (carries && hosts.count() > 1) sent += column - own + (own - 1);
      blocks = std::max(blocks, sent);
    }
  const int rounds =
      pieces::doublings(hosts.count(), radix(s)) + (hosts.largest() > 1 ? 1 : 0) + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double h = hosts.count(), others = hosts.largest() - 1, all = s.size * number(s.count);
  const double column = all / hosts.columns(), moved = column * (h - 1) / h;
  return here(all) + at_once(inside, others, others * column, others * column) +
         rounds_of(radix(s) - 1, across(hosts.columns()), pieces::doublings(hosts.count(), radix(s)), moved, moved);
}

}  // namespace

extern const Algorithm reduce_scatter_hierarchical_halving{
    .kind = Kind::reduce_scatter,
    .name = "hierarchical_halving",
    .idea = "every column to its carrier on each host, then halved across hosts: few rounds, for small blocks",
    .plan = plan,
    .cost = cost,
    .variable = true,
    .crossing = pieces::crossing_by_blocks,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
