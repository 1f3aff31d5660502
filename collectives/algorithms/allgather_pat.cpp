// Allgather by parallel aggregated trees, for hosts with equally many ranks. Every block goes from host to host along a
// binomial tree, by ranks with the owner's local index. All trees run at the same time, and blocks that go to the same
// host in the same round are aggregated into one message. Small blocks are all aggregated, in as few rounds as in
// Bruck's algorithm. A message has only as many larger blocks as fit, every s-th one. The order of the rounds is such
// that only few blocks must be stored to be forwarded, so scratch is bounded. In each round every rank also sends the
// blocks received in the round before to all ranks of its host. With L ranks on each of H hosts, p = L H, and A = H/s
// blocks in a message:
//
//   rounds ceil(log4 A) + s - 1, and 1 more if L > 1     elements (H-1) n + (p-H) n, n the count of one block
//   scratch A n (log2 s + L)     crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252, 2025. There
// the aggregated part goes to far ranks first; here to near ranks first, so that a message's blocks are contiguous.
#include <algorithm>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/pat.hpp"

namespace tutti {
namespace {

using pieces::AggregatedTrees;

/// Receives from a host behind the blocks of the hosts low, low + step, low + 2 step, ... behind this one. Sends a host
/// ahead the blocks that it needs in the same round.
void cross(const AggregatedTrees& trees, int low, Round& round) {
  const int bit = AggregatedTrees::lowest_bit(low), lanes = trees.lanes(low);
  round.add(send(trees.ahead(bit), trees.slot(low - bit, 0, lanes)), recv(trees.behind(bit), trees.slot(low)));
}

/// Sends the blocks of those hosts that this rank has to all ranks of its host, and receives those that they have.
void share(const AggregatedTrees& trees, int low, Round& round) {
  const Ring ring = trees.inside();
  for (int k = 1; k < ring.size; ++k) {
    const int ahead = modulo(ring.rank + k, ring.size), behind = modulo(ring.rank - k, ring.size);
    round.add(send(trees.member(ahead), trees.slot(low)), recv(trees.member(behind), trees.area(behind, low)));
  }
}

void put_in_place(const AggregatedTrees& trees, int low, Round& round) {
  for (int column = 0; column < trees.inside().size; ++column) {
    const Slice packed = column == trees.inside().rank ? trees.slot(low) : trees.area(column, low);
    trees.each_group(column, low, packed, Memory::out,
                     [&](Slice some, Slice spread) { round.add(copy(spread, some)); });
  }
}

Schedule plan(const Shape& s) {
  const AggregatedTrees trees(s);
  Schedule gather;
  gather.use_scratch(trees.scratch_elements(trees.inside().size));
  gather.round([=, count = s.count](Round& round) { round.add(copy(trees.slot(0, 0, 1), in({0, count}))); });
  pieces::collect_by_doubling(gather, trees.lanes(0), AggregatedTrees::radix, trees.peers(), trees.lanes_of_zero());
  gather.rounds(2 * trees.step(), [=](int k, Round& round) {
    const int low = k / 2;
    if (k % 2 > 0) return put_in_place(trees, low, round);
    share(trees, low, round);
    if (low + 1 < trees.step()) cross(trees, low + 1, round);
  });
  return gather;
}

// If there are many steps, half of the copies are made while messages travel.
Expense expense(const Shape& s) {
  using namespace expenses;
  const double copied = s.size * number(s.count);
  return AggregatedTrees::expense(s) + here(AggregatedTrees::in_many_steps(s) ? copied / 2 : copied);
}

}  // namespace

extern const Algorithm allgather_pat{
    .kind = Kind::allgather,
    .name = "pat",
    .idea = "all blocks along trees of hosts at once, as many in a message as fit: few rounds, bounded memory",
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
