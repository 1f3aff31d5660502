// Reduce-scatter by parallel aggregated trees, for hosts with equally many ranks: the allgather by parallel aggregated
// trees in reverse. Partial sums of every block go from host to host up a binomial tree, by ranks with the owner's
// local index. All trees run at once, and blocks that go to the same host in the same round are aggregated into one
// message. In each round every rank also sends its contributions for the next round to the ranks of its host, which
// fold them in rank order. Small blocks are all aggregated. A message has only as many larger blocks as fit, every s-th
// one, and only few sums are stored. With L ranks on each of H hosts, p = L H, and A = H/s blocks in a message:
//
//   rounds ceil(log4 A) + s - 1, and 1 more if L > 1     elements (p-H) n + (H-1) n, n the count of one block
//   scratch A n (log2 s + 4L)     crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252, 2025. There
// the aggregated part comes from far ranks last; here from near ranks last, so that a message's blocks are contiguous.
#include <algorithm>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/pat.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace tutti {
namespace {

using pieces::AggregatedTrees;

/// A low part stands for the blocks at the host distances low, low + step, ... These are the low parts for which a
/// host's ranks must fold their contributions just before the sums of `low` cross to another host: `low` itself, if it
/// has received no sums; and the low part to which its sums go, if they are the first there.
struct Needed {
  int list[2], count = 0;
  Needed(int low, int step) {
    if (low == 0 && step == 1) list[count++] = 0;
    if (low == 0) return;
    const int bit = AggregatedTrees::lowest_bit(low), to = low - bit;
    if (bit == 1) list[count++] = low;
    if (2 * bit == (to == 0 ? step : AggregatedTrees::lowest_bit(to))) list[count++] = to;
  }
};

/// The areas of scratch for the i-th needed part: contributions to be sent, by column; then received contributions.
struct Areas {
  int ranks;
  int leaving(int i, int column) const { return 2 * i * ranks + column; }
  int arriving(int i) const { return (2 * i + 1) * ranks; }
};

pieces::InOrder contributions(const AggregatedTrees& trees, int low, int i) {
  const Slice sums = trees.slot(low);
  return {trees.inside(), sums, sums, trees.area(Areas{trees.inside().size}.arriving(i), low).offset};
}

void pack(const AggregatedTrees& trees, int low, Round& round) {
  const Ring ring = trees.inside();
  const Needed needed(low, trees.step());
  for (int i = 0; i < needed.count; ++i)
    for (int column = 0; column < ring.size; ++column) {
      const int one = needed.list[i];
      const Slice packed = column == ring.rank ? trees.slot(one) : trees.area(Areas{ring.size}.leaving(i, column), one);
      trees.each_group(column, one, packed, Memory::in,
                       [&](Slice some, Slice spread) { round.add(copy(some, spread)); });
    }
}

void exchange(const AggregatedTrees& trees, int low, Round& round) {
  const Ring ring = trees.inside();
  const Needed needed(low, trees.step());
  for (int i = 0; i < needed.count; ++i) {
    const int one = needed.list[i];
    const pieces::InOrder order = contributions(trees, one, i);
    for (int k = 1; k < ring.size; ++k) {
      const int ahead = modulo(ring.rank + k, ring.size), behind = modulo(ring.rank - k, ring.size);
      round.add(send(trees.member(ahead), trees.area(Areas{ring.size}.leaving(i, ahead), one)),
                recv(trees.member(behind), order.contribution(behind)));
    }
  }
}

/// Fold k of the contributions that exchange() has received.
void fold_contributions(const AggregatedTrees& trees, int low, int k, bool is_one_host, Round& round) {
  const Needed needed(low, trees.step());
  for (int i = 0; i < needed.count; ++i) {
    const Step step = contributions(trees, needed.list[i], i).fold_next(k);
    round.add(last(step, step.last && is_one_host));
  }
}

/// Sends sums with this low part to a host behind, and receives them from a host ahead.
void cross(const AggregatedTrees& trees, int low, Round& round) {
  const int bit = AggregatedTrees::lowest_bit(low), lanes = trees.lanes(low);
  round.add(send(trees.behind(bit), trees.slot(low)), recv_reduce(trees.ahead(bit), trees.slot(low - bit, 0, lanes)));
}

Schedule plan(const Shape& s) {
  const AggregatedTrees trees(s);
  const int lanes = trees.lanes(0), ranks = trees.inside().size, step = trees.step();
  Schedule whole;
  whole.use_scratch(trees.scratch_elements((step > 1 ? 4 : 2) * ranks));
  whole.round([=](Round& round) { pack(trees, step - 1, round); });
  // For every low part: an exchange inside hosts, while the sums of the part before cross; folds; packing for the next.
  const int each = ranks + 1;
  whole.rounds(each * step, [=](int k, Round& round) {
    const int low = step - 1 - k / each, part = k % each;
    if (part == each - 1) return low > 0 ? pack(trees, low - 1, round) : void();
    if (part > 0) return fold_contributions(trees, low, part - 1, lanes == 1, round);
    exchange(trees, low, round);
    if (low + 1 < step) cross(trees, low + 1, round);
  });
  pieces::Halving(pieces::Doubling(lanes, 0, AggregatedTrees::radix), trees.peers(), trees.lanes_of_zero(),
                  Memory::scratch, trees.scratch_elements(0))
      .append_to(whole);
  whole.round([=, count = s.count](Round& round) { round.add(copy(out({0, count}), trees.slot(0, 0, 1))); });
  return whole;
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double sums = number(s.count) * hosts.count(), others = hosts.largest() - 1;
  return AggregatedTrees::expense(s) + here(s.size * number(s.count) + sums * others + sums);
}

}  // namespace

extern const Algorithm reduce_scatter_pat{
    .kind = Kind::reduce_scatter,
    .name = "pat",
    .idea = "sums of all blocks up trees of hosts at once, as many in a message as fit: few rounds, bounded memory",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {AggregatedTrees::rounds(s), AggregatedTrees::elements(s)};
    },
    .fits = [](const Shape& s) { return hosts_of(s).is_cartesian(); },
    .crossing = pieces::crossing_by_blocks,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
