// Recursive doubling allgather. In round d every rank exchanges all the blocks that it has with the rank whose number
// differs in bit d. These blocks are contiguous and in their final place in `out`, so unlike in Bruck's algorithm
// nothing is copied at the end; but the number of ranks must be a power of two.
//
//   rounds log2 p     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.out_blocks);
  const int rank = s.rank;
  Schedule doubling;
  doubling.round([=](Round& round) { round.add(copy(out(block[rank]), in({0, block[rank].count}))); });
  doubling.rounds(log2_ceil(s.size), [=](int k, Round& round) {
    const int span = 1 << k, mine = rank & ~(span - 1), peer = rank ^ span;
    round.add(send(peer, out(block.run(mine, span))), recv(peer, out(block.run(mine ^ span, span))));
  });
  return doubling;
}

}  // namespace

extern const Algorithm allgather_recursive_doubling{
    .kind = Kind::allgather,
    .name = "recursive_doubling",
    .idea = "all known blocks exchanged across each bit of the rank, for small blocks and powers of two",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {log2_ceil(s.size), times(s.size - 1, s.count)};
    },
    .variable = true,
    .lanes = false,
    .fits = [](const Shape& s) { return power_of_two_below(s.size) == s.size; },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return exchange(flat(s), log2_ceil(s.size), (s.size - 1) * number(s.count));
        },
};

}  // namespace tutti
