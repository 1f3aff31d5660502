// Hierarchical reduce-scatter: the hierarchical allgather in reverse. The ranks with the same local index on every
// host form a column. First the ranks of each host reduce-scatter, around a ring, their contributions for each
// column; then each column reduces the hosts' sums around a ring across hosts. Each host sends one sum of every block
// to other hosts. If hosts are grouped by racks, a column has two rings, through the hosts of a rack, then through one
// host of each rack; each rack sends one sum of every block to other racks. There are as many columns as the smallest
// host has ranks: extra ranks of larger hosts take part inside the host, and receive their blocks from a column's rank
// on their host, its carrier, at the end. For any placement of ranks. With L ranks on each of H hosts, p = L H:
//
//   rounds L-1 + H-1, and 1 more if ranks per host differ
//   (with R racks, H/R-1 + R-1 replaces H-1, and 1 more if hosts per rack differ)
//   elements (p-H) n + (H-1) n, n the count of one block     scratch 3H n, with racks about 3H n + 3R n
//   crossing hosts p n (H-1) in all, (p-L) n from each host; extra hosts of larger racks send p n
//
// Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// Blocks that are sent in the same round, one for each of `ranks`, which are consecutive ranks of a column.
struct Bundle {
  enum class Place {
    given,   ///< in `in`
    packed,  ///< one after another in scratch, from `at` on
    results  ///< the first, which is this rank's block, in `out`; the others in scratch, from `at` on
  } place = Place::given;
  std::span<const int> ranks = {};
  std::size_t first = 0;  ///< the index of the first rank in the list of all columns' ranks
  std::size_t at = 0;
};

/// The places of the blocks. Plain data, because the schedule's rounds store a copy.
struct Parts {
  const Hosts* hosts;
  Blocks block;
  std::size_t count;        // of each block
  const BlockTable* table;  // not null: the blocks have their own counts

  /// The elements of the first `place` blocks, if the blocks of all columns are in column order.
  std::size_t before(std::size_t place) const { return table != nullptr ? table->by_column()[place] : place * count; }
  std::size_t total(const Bundle& bundle) const {
    return before(bundle.first + bundle.ranks.size()) - before(bundle.first);
  }
  Bundle column(int host, int column) const {
    return {Bundle::Place::given, hosts->column(host, column), hosts->column_begin(host, column)};
  }
  Bundle whole_column(int column) const {
    if (column >= hosts->columns()) return {};
    return {Bundle::Place::given, hosts->whole_column(column), hosts->column_begin(0, column)};
  }
  /// The most elements of a column, and of one host's part of column `index`.
  std::size_t largest_column() const {
    return table != nullptr ? table->largest_column() : hosts->whole_column(0).size() * count;
  }
  std::size_t largest_part(int index) const {
    if (table != nullptr) return table->largest_part();
    return times((hosts->largest() - index - 1) / hosts->columns() + 1, count);
  }
  Slice slice(const Bundle& bundle, std::size_t i) const {
    const Range own = block[bundle.ranks[i]];
    if (bundle.place == Bundle::Place::given) return in(own);
    if (bundle.place == Bundle::Place::packed)
      return scratch({bundle.at + before(bundle.first + i) - before(bundle.first), own.count});
    return i == 0 ? out({0, own.count})
                  : scratch({bundle.at + before(bundle.first + i) - before(bundle.first + 1), own.count});
  }
};

Bundle moved(Bundle bundle, Bundle::Place place, std::size_t at) {
  bundle.place = place;
  bundle.at = at;
  return bundle;
}

/// Ring reduce-scatter of bundles. given(i) is this rank's contribution for member i; the sum for this rank ends in
/// `into`. Partial results alternate between two areas of scratch: areas.count elements each, from areas.offset on.
template <typename Given>
Schedule fold_bundles(Ring ring, const Parts& parts, Given given, const Bundle& into, Range areas) {
  Schedule plan;
  if (ring.size > 2) plan.use_scratch(areas.offset + 2 * areas.count);
  plan.rounds(ring.size - 1, [=](int k, Round& round) {
    const auto partial = [&](int in_round) {  // the bundle that arrives in this round and leaves in the next
      return moved(given(modulo(ring.rank - in_round - 2, ring.size)), Bundle::Place::packed,
                   areas.offset + static_cast<std::size_t>(in_round % 2) * areas.count);
    };
    const bool is_last = k == ring.size - 2;
    const Bundle leaving = k == 0 ? given(modulo(ring.rank - 1, ring.size)) : partial(k - 1);
    const Bundle own = given(modulo(ring.rank - k - 2, ring.size)), arriving = is_last ? into : partial(k);
    for (std::size_t i = 0; i < leaving.ranks.size(); ++i) round.add(send(ring.next(), parts.slice(leaving, i)));
    for (std::size_t i = 0; i < own.ranks.size(); ++i)
      round.add(last(recv_reduce(ring.prev(), parts.slice(arriving, i), parts.slice(own, i)), is_last));
  });
  return plan;
}

/// The same for lists of bundles, one for each of some hosts. each_of(i, take) calls take(bundle) for this rank's
/// contributions for member i. into(bundle) is the place of the sum of a bundle that is for this rank.
template <typename EachOf, typename Into>
Schedule fold_lists(Ring ring, const Parts& parts, EachOf each_of, Into into, Range areas) {
  Schedule plan;
  if (ring.size > 2) plan.use_scratch(areas.offset + 2 * areas.count);
  plan.rounds(ring.size - 1, [=](int k, Round& round) {
    const bool is_last = k == ring.size - 2;
    const auto area = [&](int in_round) { return areas.offset + static_cast<std::size_t>(in_round % 2) * areas.count; };
    std::size_t at = area(k + 1);  // the area in which the round before has stored the partial results
    each_of(modulo(ring.rank - k - 1, ring.size), [&](const Bundle& own) {
      const Bundle leaving = k == 0 ? own : moved(own, Bundle::Place::packed, at);
      for (std::size_t i = 0; i < own.ranks.size(); ++i) round.add(send(ring.next(), parts.slice(leaving, i)));
      at += parts.total(own);
    });
    at = area(k);
    each_of(modulo(ring.rank - k - 2, ring.size), [&](const Bundle& own) {
      const Bundle arriving = is_last ? into(own) : moved(own, Bundle::Place::packed, at);
      for (std::size_t i = 0; i < own.ranks.size(); ++i)
        round.add(last(recv_reduce(ring.prev(), parts.slice(arriving, i), parts.slice(own, i)), is_last));
      at += parts.total(own);
    });
  });
  return plan;
}

/// A column across hosts that are grouped by racks: the places of its sums. Plain data.
struct InRack {
  Parts parts;
  const Hosts* racks;
  int host, column, rack, index;  // index: of the host in its rack
  bool is_packed;                 // the sums of the host are in scratch
  std::size_t begin, kept;        // elements of all columns before this one; elements of its sums in scratch

  bool carries() const { return index < racks->columns(); }
  bool is_summed() const { return racks->size_of(rack) > 1; }
  Bundle part(int of) const { return parts.column(of, column); }
  std::size_t total(std::span<const int> some) const {
    std::size_t sum = 0;
    for (const int of : some) sum += parts.total(part(of));
    return sum;
  }
  std::size_t before(std::span<const int> some, int of) const {
    return total(some.first(static_cast<std::size_t>(std::ranges::find(some, of) - some.begin())));
  }
  int host_of(const Bundle& bundle) const { return parts.hosts->host_of(bundle.ranks.front()); }

  /// The sums of this rank's host for host `of`.
  Bundle given(int of) const {
    const Bundle mine = part(of);
    return is_packed ? moved(mine, Bundle::Place::packed, parts.before(mine.first) - begin) : mine;
  }
  /// gathered(): the hosts with this host's index in all racks. summed(of): the sums of this rack for host `of`.
  std::span<const int> gathered() const { return racks->whole_column(index); }
  Bundle summed(int of) const {
    return is_summed() ? moved(part(of), Bundle::Place::packed, kept + before(gathered(), of)) : given(of);
  }
  std::size_t end() const { return kept + (carries() && is_summed() ? total(gathered()) : 0); }
  /// served(): the hosts that this host serves, itself first. result(of): the results for `of`, one of these.
  std::span<const int> served() const { return racks->column(rack, index); }
  Bundle result(int of) const {
    if (of == host) return moved(part(of), Bundle::Place::results, end());
    return moved(part(of), Bundle::Place::packed, end() + before(served(), of));
  }
};

/// As across_hosts(), by a ring in each rack and one across racks. Its peers are given as numbers of hosts.
Schedule across_racks(const InRack& at) {
  const Hosts* const racks = at.racks;
  const Ring inside{at.index, racks->size_of(at.rack)}, across{racks->place_of(at.rack), racks->count()};
  const std::size_t all = at.parts.total(at.parts.whole_column(at.column));
  const auto each_inside = [=](int i, auto take) {
    if (i >= racks->columns()) return;
    for (const int of : racks->whole_column(i)) take(at.given(of));
  };
  Schedule plan = fold_lists(inside, at.parts, each_inside,
                             [=](const Bundle& own) { return at.summed(at.host_of(own)); }, {at.end(), all})
                      .on((*racks)[at.rack])
                      .partial();
  if (!at.carries()) {
    plan.use_scratch(at.end() + at.parts.total(at.part(at.host)));
    const int carrier = (*racks)[at.rack][static_cast<std::size_t>(at.index % racks->columns())];
    plan.round([=](Round& round) {
      const Bundle mine = at.result(at.host);
      for (std::size_t i = 0; i < mine.ranks.size(); ++i) round.add(recv(carrier, at.parts.slice(mine, i)));
    });
    return plan;
  }
  const auto each_across = [=](int place, auto take) {
    for (const int of : racks->column(racks->in_order(place), at.index)) take(at.summed(of));
  };
  const std::size_t end = at.end() + at.total(at.served());
  plan.use_scratch(end);
  plan.then(fold_lists(across, at.parts, each_across, [=](const Bundle& own) { return at.result(at.host_of(own)); },
                       {end, at.total(at.gathered())})
                .on(Members::in_order(*racks, at.index)));
  plan.round([=](Round& round) {
    for (const int of : at.served()) {
      const Bundle theirs = at.result(of);
      for (std::size_t i = 0; i < theirs.ranks.size() && of != at.host; ++i)
        round.add(send(of, at.parts.slice(theirs, i)));
    }
  });
  return plan;
}

/// Reduces the hosts' sums for this rank's column into `out`, and forwards the results for extra ranks of the host. The
/// sums are in the first `kept` elements of scratch. If `is_packed` is false, this rank is alone on its host, and the
/// sums are in `in`.
Schedule across_hosts(const Shape& s, const Parts& parts, bool is_packed, std::size_t kept) {
  const Hosts& hosts = *parts.hosts;
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank);
  const Bundle served = parts.column(host, index);  // its first rank is this rank
  const auto forward = [=](Schedule& plan, const Bundle& results) {
    plan.round([=](Round& round) {
      for (std::size_t i = 1; i < served.ranks.size(); ++i) round.add(send(served.ranks[i], parts.slice(results, i)));
    });
  };
  const std::size_t begin = parts.before(hosts.column_begin(0, index));
  if (const Hosts* const racks = hosts.above(); racks != nullptr) {
    const int rack = racks->host_of(host);
    const InRack at{parts, racks, host, index, rack, racks->index_of(host), is_packed, begin, kept};
    Schedule plan = across_racks(at).on(Members::across(hosts, index));
    forward(plan, at.result(host));
    return plan;
  }
  const Bundle results = moved(served, Bundle::Place::results, kept);
  const auto sums = [=](int h) {
    const Bundle mine = parts.column(h, index);
    return is_packed ? moved(mine, Bundle::Place::packed, parts.before(mine.first) - begin) : mine;
  };
  const std::size_t end = kept + parts.total(served) - parts.block[s.rank].count;
  Schedule plan = fold_bundles({host, hosts.count()}, parts, sums, results, {end, parts.largest_part(index)})
                      .on(Members::across(hosts, index));
  plan.use_scratch(end);
  forward(plan, results);
  return plan;
}

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const Parts parts{&hosts, Blocks(s.count, s.size, s.in_blocks), s.count, s.in_blocks};
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank), columns = hosts.columns();
  const Ring inside{index, hosts.size_of(host)};
  const Slice mine = in(parts.block[s.rank]), result = out({0, mine.count});
  const bool is_one_host = hosts.count() == 1, is_packed = inside.size > 1 && !is_one_host;
  Schedule whole;
  if (s.size == 1) {
    whole.round([=](Round& round) { round.add(copy(result, mine)); });
    return whole;
  }
  const Bundle own = parts.whole_column(index);
  const std::size_t kept = is_packed ? parts.total(own) : 0;  // elements of scratch used by the sums
  const Bundle sums = moved(own, is_one_host ? Bundle::Place::results : Bundle::Place::packed, 0);
  whole =
      fold_bundles(inside, parts, [=](int i) { return parts.whole_column(i); }, sums, {kept, parts.largest_column()})
          .on(hosts[host]);
  whole.use_scratch(kept);
  if (is_one_host) return whole;
  whole = std::move(whole).partial();
  if (index < columns) {
    whole.then(across_hosts(s, parts, is_packed, kept));
    return whole;
  }
  whole.round([=, carrier = hosts[host][static_cast<std::size_t>(index % columns)]](Round& round) {
    round.add(recv(carrier, result));
  });
  return whole;
}

/// Blocks that the carrier of a column sends to other hosts.
std::size_t sent_across(const Hosts& hosts, int host, int column) {
  const std::size_t all = hosts.whole_column(column).size(), own = hosts.column(host, column).size();
  const Hosts* const racks = hosts.above();
  const bool is_extra = racks != nullptr && racks->index_of(host) >= racks->columns();
  return hosts.count() == 1 ? 0 : is_extra ? all : all - own;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const Hosts* const racks = hosts.above();
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const bool carries = index < hosts.columns();
    const std::size_t column = carries ? hosts.whole_column(index).size() : 0;
    std::size_t sent = hosts.size_of(host) > 1 ? static_cast<std::size_t>(s.size) - column : 0;
    if (carries && hosts.count() > 1) sent += sent_across(hosts, host, index) + hosts.column(host, index).size() - 1;
    blocks = std::max(blocks, sent);
  }
  const int between = racks == nullptr ? hosts.count() - 1
                                       : racks->largest() - 1 + racks->count() - 1 + (racks->is_cartesian() ? 0 : 1);
  return {hosts.largest() - 1 + between + (hosts.is_cartesian() ? 0 : 1), blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what;
  for (int host = 0; host < hosts.count(); ++host) {
    std::size_t sent = 0;
    for (int i = 0; i < hosts.columns(); ++i) sent += sent_across(hosts, host, i);
    what.total += sent * s.count;
    what.most = std::max(what.most, sent * s.count);
  }
  return what;
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const Hosts* const racks = hosts.above();
  const double column = number(hosts.whole_column(0).size()), own = column / hosts.count(), n = number(s.count);
  const Links between = above(inside, hosts);
  Expense sum = ring(inside, hosts.largest() - 1, column * n, true);
  sum.load.within.messages *= column;  // a message for each block
  if (racks == nullptr) {
    sum = sum + ring(between, hosts.count() - 1, own * n, true);
    sum.load.between.messages *= own;
    return sum;
  }
  const double far = own * hosts.count() / (racks->count() * racks->columns()), near = far * racks->count();
  sum = sum + ring(between, racks->largest() - 1, near * n, true) +
        ring(above(between, *racks), racks->count() - 1, far * n, true);
  sum.load.between.messages *= near;
  sum.load.beyond.messages *= far;
  return sum;
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
    .expense = expense,
    .alike = true,
    .racks = true,
};

}  // namespace tutti
