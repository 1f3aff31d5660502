// Pairwise alltoall. In round k every rank sends to the rank k ahead and receives from the rank k behind, so each
// rank handles one message at a time. Both sides know the length of a message from their counts, and skip it if it is
// zero.
//
//   rounds p-1     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks mine(s.count, s.size, s.in_blocks), theirs(s.count, s.size, s.out_blocks);
  const int rank = s.rank, size = s.size;
  Schedule exchange;
  exchange.rounds(size, [=](int k, Round& round) {
    const int ahead = modulo(rank + k, size), behind = modulo(rank - k, size);
    if (k == 0)
      round.add(copy(out(theirs[rank]), in(mine[rank])));
    else
      round.add(send(ahead, in(mine[ahead])), recv(behind, out(theirs[behind])));
  });
  return exchange;
}

}  // namespace

extern const Algorithm alltoall_pairwise{
    .kind = Kind::alltoall,
    .name = "pairwise",
    .idea = "one partner at a time, k ahead and k behind in round k, for large blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {s.size - 1, times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return ring(flat(s), s.size - 1, number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
