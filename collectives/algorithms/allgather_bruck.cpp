// Bruck allgather. Each rank stores the blocks that it has in the order of its own rank, the next rank, and so on. In
// round k it sends the first 2^k of them to the rank 2^k behind, and appends those received from the rank 2^k ahead;
// the last round may send fewer. At the end two copies put the blocks in rank order. Any p, equal counts or not.
//
//   rounds ceil(log2 p)     elements (p-1) n, n the count of one block     scratch p n
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997.
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.out_blocks);
  const Blocks known = block.rotated(s.rank);  // known[j] is the block of rank + j
  const int rank = s.rank, size = s.size;
  Schedule bruck;
  bruck.use_scratch(known.total());
  bruck.round([=](Round& round) { round.add(copy(scratch(known[0]), in({0, known[0].count}))); });
  bruck.rounds(log2_ceil(size), [=](int k, Round& round) {
    const int have = 1 << k, more = std::min(have, size - have);
    round.add(send(modulo(rank - have, size), scratch(known.run(0, more))),
              recv(modulo(rank + have, size), scratch(known.run(have, more))));
  });
  bruck.round([=](Round& round) {
    const int wrap = size - rank;  // known[wrap] is the block of rank 0
    round.add(copy(out(block.run(rank, wrap)), scratch(known.run(0, wrap))),
              copy(out(block.run(0, rank)), scratch(known.run(wrap, rank))));
  });
  return bruck;
}

}  // namespace

extern const Algorithm allgather_bruck{
    .kind = Kind::allgather,
    .name = "bruck",
    .idea = "twice as many blocks every round, any number of ranks: the fewest rounds, for small blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {log2_ceil(s.size), times(s.size - 1, s.count)};
    },
    .variable = true,
    .lanes = false,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return exchange(flat(s), log2_ceil(s.size), (s.size - 1) * number(s.count), s.size * number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
