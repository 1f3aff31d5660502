// Tree allreduce. A binomial reduce to rank 0, then a binomial broadcast from it. Few messages are in flight at a
// time, which suits networks with few links, and more ranks than cores.
//
//   rounds ceil(log2 p) + floor(log2 p)     elements ceil(log2 p) n (rank 0)     scratch n
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

extern const Algorithm allreduce_tree{
    .kind = Kind::allreduce,
    .name = "tree",
    .idea = "a binomial reduce to rank 0 and a binomial broadcast from it: the fewest messages in all",
    .plan = [](const Shape& s) -> Schedule {
      Schedule plan = pieces::reduce_binomial(s);
      plan.then(pieces::broadcast_binomial(s));
      return plan;
    },
    .cost = [](const Shape& s) -> Cost {
      return {log2_ceil(s.size) + log2_floor(s.size), times(log2_ceil(s.size), s.count)};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return there_and_back(binomial(flat(s), s.size, number(s.count), true),
                                binomial(flat(s), s.size, number(s.count), false));
        },
};

}  // namespace tutti
