// Recursive doubling allreduce. In round d every rank exchanges its whole partial result with the rank whose number
// differs in bit d, and both fold the two results. So the number of ranks that share a partial result doubles each
// round. Both put the lower rank's operand first, so all ranks fold in the same order and get equal bits. k is the
// largest power of two at most p. If k < p, rank k+j first sends its data to rank j, which folds it, and receives the
// result at the end.
//
//   rounds log2 k, and 2 more if k < p     elements n log2 k, and n more if k < p     scratch n
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include <utility>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::fold_extra_ranks(const Shape& s, int k, Schedule (*core)(const Shape&)) {
  if (s.size == 1) return alone(s.count);
  const Range all{0, s.count};
  Schedule plan;
  if (s.rank >= k) {
    const int peer = s.rank - k;
    plan.rounds(2, [=](int part, Round& round) { round.add(part == 0 ? send(peer, in(all)) : recv(peer, out(all))); });
    return plan;
  }
  Schedule inner = core({.rank = s.rank, .size = k, .count = s.count});
  const int extra = s.rank + k;
  if (extra >= s.size) return inner;
  plan.round([=](Round& round) { round.add(recv_reduce(extra, out(all), in(all))); });
  plan.then(std::move(inner).in_place());
  plan.round([=](Round& round) { round.add(send(extra, out(all))); });
  return plan;
}

namespace {

/// For powers of two. Received data goes to scratch, because in place it must not overwrite data being sent.
Schedule core(const Shape& s) {
  const Range all{0, s.count};
  const int rank = s.rank, doublings = log2_floor(s.size);
  Schedule doubling;
  doubling.rounds(2 * doublings, [=](int k, Round& round) {
    const int peer = rank ^ 1 << k / 2;
    const Slice mine = k < 2 ? in(all) : out(all), theirs = scratch(all);
    if (k % 2 == 0)
      round.add(send(peer, mine), recv(peer, theirs));
    else
      round.add(
          last(rank < peer ? fold(out(all), mine, theirs) : fold(out(all), theirs, mine), k == 2 * doublings - 1));
  });
  doubling.use_scratch(s.count);
  return doubling;
}

}  // namespace

Schedule pieces::allreduce_recursive_doubling(const Shape& s) {
  return fold_extra_ranks(s, power_of_two_below(s.size), core);
}

namespace {

Cost cost(const Shape& s) {
  const int doublings = log2_floor(s.size);
  const bool has_extra = power_of_two_below(s.size) < s.size;
  return {doublings + (has_extra ? 2 : 0), times(doublings + (has_extra ? 1 : 0), s.count)};
}

}  // namespace

extern const Algorithm allreduce_recursive_doubling{
    .kind = Kind::allreduce,
    .name = "recursive_doubling",
    .idea = "whole buffers exchanged across each bit of the rank: the fewest rounds, for small buffers",
    .plan = pieces::allreduce_recursive_doubling,
    .cost = cost,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return doubling(flat(s), s.size, number(s.count));
        },
};

}  // namespace tutti
