// Hierarchical allgather. The ranks with the same local index on every host form a column. First each column runs a
// ring allgather across hosts; then the ranks of each host pass their column's blocks around a ring inside the host.
// Every block enters every host once, and all ranks of a host share its link. If hosts are grouped by R racks, a column
// has two rings, first through one host of each rack, then through the hosts of a rack; so every block enters every
// rack once too. There are as many columns as the smallest host has ranks: extra ranks of larger hosts first send their
// blocks to a column's rank on their host, its carrier, and take part only inside the host. Extra hosts of larger racks
// do the same in their rack. For any placement of ranks. With L ranks on each of H hosts, p = L H:
//
//   rounds H-1 + L-1, and 1 more if ranks per host differ
//   (with racks, R-1 + H/R-1 replaces H-1, and 1 more if hosts per rack differ)
//   elements (H-1) n + (p-H) n, n the count of one block     scratch none
//   crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// A ring allgather. member_at(i) is the i-th rank of the ring; each_of(i, take) calls take(rank) for the ranks whose
/// blocks the i-th rank contributes. has(member, rank): the member has that rank's block already, so it is not sent.
template <typename MemberAt, typename EachOf, typename Has>
void circulate(Schedule& plan, const Blocks& block, Ring ring, MemberAt member_at, EachOf each_of, Has has) {
  plan.rounds(ring.size - 1, [=](int k, Round& round) {
    const int me = member_at(ring.rank), next = member_at(ring.next()), prev = member_at(ring.prev());
    each_of(modulo(ring.rank - k, ring.size), [&](int rank) {
      if (!has(next, rank)) round.add(send(next, out(block[rank])));
    });
    each_of(modulo(ring.rank - k - 1, ring.size), [&](int rank) {
      if (!has(me, rank)) round.add(recv(prev, out(block[rank])));
    });
  });
}

/// The ranks of a column, by host. Plain data.
struct Column {
  const Hosts* hosts;
  int index;

  int carrier(int host) const { return (*hosts)[host][static_cast<std::size_t>(index)]; }
  template <typename Take>
  void each(int host, Take take) const {
    for (const int rank : hosts->column(host, index)) take(rank);
  }
  template <typename Take>
  void each_of(std::span<const int> some, Take take) const {
    for (const int host : some) each(host, take);
  }
  std::size_t size_of(std::span<const int> some) const {
    std::size_t sum = 0;
    for (const int host : some) sum += hosts->column(host, index).size();
    return sum;
  }
  bool same_host(int rank, int other) const { return hosts->host_of(rank) == hosts->host_of(other); }
};

/// As across_hosts(), first across racks, then inside each rack.
void across_racks(Schedule& gather, const Blocks& block, int host, Column column) {
  const Hosts* const racks = column.hosts->above();
  const int rack = racks->host_of(host), index = racks->index_of(host), columns = racks->columns();
  const auto carrier_at = [=](int one, int i) { return column.carrier((*racks)[one][static_cast<std::size_t>(i)]); };
  const auto has = [=](int rank, int other) { return column.same_host(rank, other); };
  gather.round([=](Round& round) {
    if (index >= columns) {
      const int to = carrier_at(rack, index % columns);
      return column.each(host, [&](int rank) { round.add(send(to, out(block[rank]))); });
    }
    for (const int extra : racks->column(rack, index))
      if (extra != host)
        column.each(extra, [&](int rank) { round.add(recv(column.carrier(extra), out(block[rank]))); });
  });
  if (index < columns)
    circulate(
        gather, block, {racks->place_of(rack), racks->count()},
        [=](int place) { return carrier_at(racks->in_order(place), index); },
        [=](int place, auto take) { column.each_of(racks->column(racks->in_order(place), index), take); }, has);
  circulate(
      gather, block, {index, racks->size_of(rack)}, [=](int i) { return carrier_at(rack, i); },
      [=](int i, auto take) {
        if (i < columns) column.each_of(racks->whole_column(i), take);
      },
      has);
}

/// Collects the blocks of a column at the column's carrier on the host, which has the blocks of its own host already.
void across_hosts(Schedule& gather, const Blocks& block, int host, Column column) {
  if (column.hosts->above() != nullptr) return across_racks(gather, block, host, column);
  circulate(
      gather, block, {host, column.hosts->count()}, [=](int h) { return column.carrier(h); },
      [=](int h, auto take) { column.each(h, take); },
      [=](int rank, int other) { return column.same_host(rank, other); });
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
  if (index < columns) across_hosts(gather, block, host, {all, index});
  circulate(
      gather, block, {index, hosts.size_of(host)}, [=](int i) { return (*all)[host][static_cast<std::size_t>(i)]; },
      [=](int i, auto take) {
        if (i >= columns) return;
        for (const int one : all->whole_column(i)) take(one);
      },
      [](int member, int one) { return member == one; });
  return gather;
}

/// Blocks that the carrier of a column sends to other hosts.
std::size_t sent_across(const Column& column, int host) {
  const Hosts& hosts = *column.hosts;
  const std::size_t all = hosts.whole_column(column.index).size();
  const Hosts* const racks = hosts.above();
  if (racks == nullptr) {  // all except the next host's own blocks
    const Ring ring{host, hosts.count()};
    return ring.size == 1 ? 0 : all - hosts.column(ring.next(), column.index).size();
  }
  const int rack = racks->host_of(host), index = racks->index_of(host), columns = racks->columns();
  const Ring across{racks->place_of(rack), racks->count()}, inside{index, racks->size_of(rack)};
  const int next = (*racks)[rack][static_cast<std::size_t>(inside.next())];
  std::size_t sent = hosts.column(host, column.index).size();
  if (index < columns)
    sent = column.size_of(racks->whole_column(index)) -
           column.size_of(racks->column(racks->in_order(across.next()), index));
  if (inside.size > 1)
    sent += all - (inside.next() < columns ? column.size_of(racks->whole_column(inside.next()))
                                           : hosts.column(next, column.index).size());
  return sent;
}

int rounds_between(const Hosts& hosts) {
  const Hosts* const racks = hosts.above();
  if (racks == nullptr) return hosts.count() - 1;
  return racks->count() - 1 + racks->largest() - 1 + (racks->is_cartesian() ? 0 : 1);
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int columns = hosts.columns();
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const Ring inside{index, hosts.size_of(host)};
    std::size_t sent = index < columns ? sent_across({&hosts, index}, host) : 1;
    if (inside.size > 1)  // all except the next rank's own blocks
      sent +=
          static_cast<std::size_t>(s.size) - (inside.next() < columns ? hosts.whole_column(inside.next()).size() : 1);
    blocks = std::max(blocks, sent);
  }
  return {rounds_between(hosts) + hosts.largest() - 1 + (hosts.is_cartesian() ? 0 : 1), blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  if (hosts.above() == nullptr) return pieces::crossing_by_blocks(s);
  std::size_t most = 0;
  for (int host = 0; host < hosts.count(); ++host) {
    std::size_t sent = 0;
    for (int i = 0; i < hosts.columns(); ++i) sent += sent_across({&hosts, i}, host);
    most = std::max(most, sent);
  }
  return {pieces::every_block_once(s), most * s.count};
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const Hosts* const racks = hosts.above();
  const double column = number(hosts.whole_column(0).size()), own = column / hosts.count(), n = number(s.count);
  const Links between = above(inside, hosts);
  Expense sum;
  if (racks == nullptr) {
    sum = ring(between, hosts.count() - 1, own * n);
    sum.load.between.messages *= own;  // a message for each block
  } else {
    const double far = own * hosts.count() / (racks->count() * racks->columns()), near = far * racks->count();
    sum = ring(above(between, *racks), racks->count() - 1, far * n) + ring(between, racks->largest() - 1, near * n);
    sum.load.beyond.messages *= far;
    sum.load.between.messages *= near;
  }
  sum = sum + ring(inside, hosts.largest() - 1, column * n);
  sum.load.within.messages *= column;
  return sum;
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
    .expense = expense,
    .alike = true,
    .racks = true,
};

}  // namespace tutti
