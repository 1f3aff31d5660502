// Linear alltoall. Every rank sends to all others at once, starting with the next rank, so that targets differ.
// Messages of zero length are skipped on both sides. For few ranks and small blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch none
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997 (the direct algorithm).
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks mine(s.count, s.size, s.in_counts), theirs(s.count, s.size, s.out_counts);
  Schedule exchange;
  std::vector<Step> steps;
  for (int k = 1; k < s.size; ++k) {
    const int ahead = modulo(s.rank + k, s.size), behind = modulo(s.rank - k, s.size);
    steps.push_back(send(ahead, in(mine[ahead])));
    steps.push_back(recv(behind, out(theirs[behind])));
  }
  steps.push_back(copy(out(theirs[s.rank]), in(mine[s.rank])));
  exchange.round(std::move(steps));
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
};

}  // namespace tutti
