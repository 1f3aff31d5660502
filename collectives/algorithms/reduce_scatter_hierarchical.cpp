// Hierarchical reduce-scatter: the hierarchical allgather in reverse. The ranks with the same local index on every
// host form a column. First the ranks of each host reduce-scatter, around a ring, their contributions for each
// column; then each column reduces the hosts' sums around a ring across hosts. Each host sends one sum of every block
// to other hosts. There are as many columns as the smallest host has ranks: extra ranks of larger hosts take part
// inside the host, and receive their blocks from the carrier of a column at the end. Any layout. With L ranks on each
// of H hosts, p = L H:
//
//   rounds L-1 + H-1, and 1 more where hosts differ     elements (p-H) n + (H-1) n, n the count of one block
//   scratch 3H n     crossing p n (H-1) in all, (p-L) n from each host
//
// Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>
#include <iterator>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// Slices that are sent together.
using Bundle = std::vector<Slice>;

std::size_t total(const Bundle& bundle) {
  std::size_t sum = 0;
  for (const Slice& slice : bundle) sum += slice.count;
  return sum;
}

/// Consecutive slices of scratch from `at` on, with the counts of `bundle`.
Bundle scratch_like(const Bundle& bundle, std::size_t at) {
  Bundle copy;
  for (const Slice& slice : bundle) {
    copy.push_back(scratch({at, slice.count}));
    at += slice.count;
  }
  return copy;
}

/// Ring reduce-scatter of bundles: given[i] is this rank's contribution for member i, and the sum for this rank ends
/// in `into`. Partial results alternate between two areas of scratch from `at` on.
Schedule fold_bundles(Ring ring, const std::vector<Bundle>& given, const Bundle& into, std::size_t at) {
  const auto mine = [&](int i) -> const Bundle& { return given[static_cast<std::size_t>(modulo(i, ring.size))]; };
  std::size_t largest = 0;
  for (const Bundle& bundle : given) largest = std::max(largest, total(bundle));
  Schedule plan;
  if (ring.size > 2) plan.use_scratch(at + 2 * largest);
  Bundle leaving = mine(ring.rank - 1);
  for (int k = 0; k < ring.size - 1; ++k) {
    const Bundle& own = mine(ring.rank - k - 2);
    Bundle arriving = k == ring.size - 2 ? into : scratch_like(own, at + static_cast<std::size_t>(k % 2) * largest);
    std::vector<Step> steps;
    for (const Slice& slice : leaving) steps.push_back(send(ring.next(), slice));
    for (std::size_t i = 0; i < own.size(); ++i) steps.push_back(recv_reduce(ring.prev(), arriving[i], own[i]));
    plan.round(std::move(steps));
    leaving = std::move(arriving);
  }
  return plan;
}

/// The sums of this rank's host for a column, split by host.
std::vector<Bundle> split_by_host(const Hosts& hosts, int column, const Bundle& sums) {
  std::vector<Bundle> parts;
  auto begin = sums.begin();
  for (int host = 0; host < hosts.count(); ++host) {
    const auto end = begin + std::ssize(hosts.column(host, column));
    parts.emplace_back(begin, end);
    begin = end;
  }
  return parts;
}

/// Reduces the hosts' sums for this rank's column into `out`, and forwards those for extra ranks of the host.
Schedule across_hosts(const Shape& s, const Hosts& hosts, const Bundle& sums, std::size_t at) {
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank);
  const std::vector<Bundle> by_host = split_by_host(hosts, index, sums);
  const std::vector<int> served = hosts.column(host, index);  // this rank is first
  Bundle results = by_host[static_cast<std::size_t>(host)];
  results[0] = out({0, results[0].count});
  std::vector<Step> hand_on;
  for (std::size_t i = 1; i < served.size(); ++i) {
    results[i] = scratch({at, results[i].count});
    at += results[i].count;
    hand_on.push_back(send(served[i], results[i]));
  }
  Schedule plan;
  plan.use_scratch(at);
  plan.then(fold_bundles({host, hosts.count()}, by_host, results, at).on(hosts.across(index)));
  for (const Slice& result : results) plan.reduced(result);
  plan.round(std::move(hand_on));
  return plan;
}

Schedule plan(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  const Blocks block(s.count, s.size, s.in_counts);
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank), columns = hosts.columns();
  const Ring inside{index, hosts.size_of(host)};
  const Slice result = out({0, block[s.rank].count});

  std::vector<Bundle> for_member(static_cast<std::size_t>(inside.size));
  for (int column = 0; column < columns; ++column)
    for (int h = 0; h < hosts.count(); ++h)
      for (const int rank : hosts.column(h, column))
        for_member[static_cast<std::size_t>(column)].push_back(in(block[rank]));
  Bundle sums = for_member[static_cast<std::size_t>(index)];
  if (s.size == 1) {
    Schedule plan;
    plan.round({copy(result, sums[0])});
    return plan;
  }
  std::size_t kept = 0;  // elements of scratch used by the sums
  if (inside.size > 1 && hosts.count() == 1) {
    sums = {result};
  } else if (inside.size > 1) {
    kept = total(sums);
    sums = scratch_like(sums, 0);
  }
  Schedule whole = fold_bundles(inside, for_member, sums, kept).on(hosts[host]);
  whole.use_scratch(kept);
  if (hosts.count() == 1)
    whole.reduced(result);
  else if (index < columns)
    whole.then(across_hosts(s, hosts, sums, kept));
  else
    whole.round({recv(hosts[host][static_cast<std::size_t>(index % columns)], result)});
  return whole;
}

Cost cost(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const bool carries = index < hosts.columns();
    std::size_t column = 0;  // ranks of the column, on all hosts
    for (int h = 0; carries && h < hosts.count(); ++h) column += hosts.column(h, index).size();
    const std::size_t own = carries ? hosts.column(host, index).size() : 0;
    std::size_t sent = hosts.size_of(host) > 1 ? static_cast<std::size_t>(s.size) - column : 0;
    if (carries && hosts.count() > 1) sent += column - own + (own - 1);
    blocks = std::max(blocks, sent);
  }
  const int rounds = hosts.largest() - 1 + hosts.count() - 1 + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  return {times(s.size * (hosts.count() - 1), s.count), times(s.size - hosts.smallest(), s.count)};
}

}  // namespace

extern const Algorithm reduce_scatter_hierarchical{
    .kind = Kind::reduce_scatter,
    .name = "hierarchical",
    .idea = "a ring on each host, then rings across hosts: one sum of each block out of every host",
    .plan = plan,
    .cost = cost,
    .variable = true,
    .crossing = crossing,
};

}  // namespace tutti
