// Tree allreduce. A binomial reduce to rank 0, then a binomial broadcast from it. Few messages are in flight at a
// time, which suits networks with few links, and more ranks than cores.
//
//   rounds ceil(log2 p) + floor(log2 p)     elements ceil(log2 p) n (rank 0)     scratch n
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) { return pieces::reduce_binomial(s).then(pieces::broadcast_binomial(s)); }

Cost cost(const Shape& s) {
  const auto up = static_cast<std::size_t>(log2_ceil(s.size)), down = static_cast<std::size_t>(log2_floor(s.size));
  return {up + down, up * s.count};
}

}  // namespace

namespace catalog_entries {
extern const Algorithm allreduce_tree{
    .kind = Kind::allreduce,
    .name = "tree",
    .idea = "a binomial reduce to rank 0 and a binomial broadcast from it: the fewest messages in all",
    .plan = plan,
    .cost = cost,
};
}  // namespace catalog_entries
}  // namespace tutti
