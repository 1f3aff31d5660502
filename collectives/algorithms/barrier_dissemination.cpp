// Dissemination barrier. In round k every rank notifies the rank 2^k ahead and waits for the rank 2^k behind. Then it
// has been notified, directly or indirectly, by 2^(k+1) ranks including itself. The barrier ends when these are all
// ranks. Messages have no elements.
//
//   rounds ceil(log2 p)     elements 0     scratch none
//
// Hensgen, Finkel & Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Programming 1988.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const int rank = s.rank, size = s.size;
  Schedule barrier;
  barrier.rounds(log2_ceil(size), [=](int k, Round& round) {
    const int distance = 1 << k;
    round.add(notify(modulo(rank + distance, size)), await(modulo(rank - distance, size)));
  });
  return barrier;
}

}  // namespace

extern const Algorithm barrier_dissemination{
    .kind = Kind::barrier,
    .name = "dissemination",
    .idea = "notify the rank 2^k ahead in round k: everyone has heard from all in log2 p rounds",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {log2_ceil(s.size), 0};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return exchange(flat(s), log2_ceil(s.size), 0);
        },
};

}  // namespace tutti
