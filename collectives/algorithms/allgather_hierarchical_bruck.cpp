// Hierarchical Bruck allgather. The ranks with the same local index on every host form a column. First each column
// collects its blocks by doubling across hosts; then every rank sends its column to all ranks of its host at once.
// Blocks travel packed, all of a column in one message, and two copies put them in their places. There are as many
// columns as the smallest host has ranks: extra ranks of larger hosts first send their blocks to a column's rank on
// their host, its carrier, and then only receive. For any placement of ranks. With L ranks on each of H hosts, p = L H:
//
//   rounds ceil(log4 H), or ceil(log2 H) if H n > 16 Ki elements, 1 more if L > 1, and 1 more if ranks per host differ
//   elements (H-1) n + (p-H) n, n the count of one block     scratch p n
//   crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997; Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane
// communication", CLUSTER 2020.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/column.hpp"
#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/halving.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

using pieces::PackedColumns;

int radix(const Shape& s) { return pieces::radix_for(times(hosts_of(s).count(), s.count)); }

/// Carriers put their own block and those of the extra ranks that they serve in place; extra ranks send their block.
void give(const PackedColumns& all, int rank, Round& round) {
  const Slice mine = in({0, all.block()[rank].count});
  if (!all.carries()) return round.add(send(all.carrier(), mine));
  round.add(copy(all.own(0), mine));
  for (std::size_t i = 1; i < all.served().size(); ++i) round.add(recv(all.served()[i], all.own(i)));
}

/// Carriers send their column to all ranks of the host; all ranks receive the other columns.
void share(const PackedColumns& all, Round& round) {
  const std::span<const int> members = all.hosts()[all.host()];
  const Ring ring = all.inside();
  for (int k = 1; k < ring.size; ++k) {
    const int ahead = modulo(ring.rank + k, ring.size), behind = modulo(ring.rank - k, ring.size);
    if (all.carries()) round.add(send(members[static_cast<std::size_t>(ahead)], all.column(ring.rank)));
    if (behind < all.hosts().columns()) round.add(recv(members[static_cast<std::size_t>(behind)], all.column(behind)));
  }
}

void put_in_place(const PackedColumns& all, Round& round) {
  for (int column = 0; column < all.hosts().columns(); ++column)
    all.each_group(column, [&](Slice packed, int rank, std::ptrdiff_t stride) {
      round.add(copy(all.spread(Memory::out, rank, packed, stride), packed));
    });
}

Schedule plan(const Shape& s) {
  const PackedColumns all(s, s.out_blocks);
  Schedule gather;
  gather.use_scratch(all.total());
  gather.round([=, rank = s.rank](Round& round) { give(all, rank, round); });
  if (all.carries()) {
    Schedule across;
    pieces::collect_by_doubling(across, all.across().size, radix(s), pieces::Neighbours{all.across()}, all);
    gather.then(std::move(across).on(Members::across(all.hosts(), all.index())));
  }
  gather.round([=](Round& round) { share(all, round); });
  gather.round([=](Round& round) { put_in_place(all, round); });
  return gather;
}

/// Blocks that a column's carrier sends to other hosts.
std::size_t across(const Hosts& hosts, int radix, int host, int column) {
  return pieces::sent_by_doubling(hosts.count(), radix, [&](int, int n) {
    std::size_t blocks = 0;
    for (int j = 0; j < n; ++j) blocks += hosts.column(modulo(host + j, hosts.count()), column).size();
    return blocks;
  });
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t blocks = 0;
  for (int host = 0; host < hosts.count(); ++host)
    for (int index = 0; index < hosts.size_of(host); ++index) {
      const bool carries = index < hosts.columns();
      const std::size_t column = carries ? hosts.whole_column(index).size() : 0;
      const std::size_t inside = carries ? column * static_cast<std::size_t>(hosts.size_of(host) - 1) : 1;
      blocks = std::max(blocks, inside + (carries ? across(hosts, radix(s), host, index) : 0));
    }
  const int rounds =
      pieces::doublings(hosts.count(), radix(s)) + (hosts.largest() > 1 ? 1 : 0) + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what{.total = pieces::every_block_once(s)};
  for (int host = 0; host < hosts.count(); ++host) {
    std::size_t blocks = 0;
    for (int column = 0; column < hosts.columns(); ++column) blocks += across(hosts, radix(s), host, column);
    what.most = std::max(what.most, blocks * s.count);
  }
  return what;
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double h = hosts.count(), others = hosts.largest() - 1, all = s.size * number(s.count);
  const double column = all / hosts.columns();
  return rounds_of(radix(s) - 1, expenses::across(hosts.columns()), pieces::doublings(hosts.count(), radix(s)),
                   column * (h - 1) / h) +
         at_once(inside, others, others * column) + here(all);
}

}  // namespace

extern const Algorithm allgather_hierarchical_bruck{
    .kind = Kind::allgather,
    .name = "hierarchical_bruck",
    .idea = "columns doubled across hosts, then sent to all on each: few rounds, for small blocks",
    .plan = plan,
    .cost = cost,
    .variable = true,
    .crossing = crossing,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
