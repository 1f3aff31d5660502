// Linear alltoall. Every rank sends to all others at once. It starts with the next rank, so that ranks do not all send
// to the same rank first. Messages of zero length are skipped on both sides. For few ranks and small blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch none
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997 (the direct algorithm).
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks mine(s.count, s.size, s.in_blocks), theirs(s.count, s.size, s.out_blocks);
  const int rank = s.rank, size = s.size;
  Schedule exchange;
  exchange.round([=](Round& round) {
    for (int k = 1; k < size; ++k) {
      const int ahead = modulo(rank + k, size), behind = modulo(rank - k, size);
      round.add(send(ahead, in(mine[ahead])), recv(behind, out(theirs[behind])));
    }
    round.add(copy(out(theirs[rank]), in(mine[rank])));
  });
  return exchange;
}

}  // namespace

extern const Algorithm alltoall_linear{
    .kind = Kind::alltoall,
    .name = "linear",
    .idea = "everyone sends to everyone at once: one round, for few ranks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return at_once(flat(s), s.size - 1, (s.size - 1) * number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
