// Binomial broadcast. Relabel the ranks so that the root is 0; label v receives from v without its lowest bit and
// then sends to v + bit for every lower bit. Each round doubles the number of ranks that have the data.
// The children are served together, the one with the largest subtree first.
//
//   rounds floor(log2 p), the depth of the tree     elements ceil(log2 p) n (the root)     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithm.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace tutti {

Schedule pieces::broadcast_binomial(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, s.root};
  const Slice all = out({0, s.count});
  Schedule plan;
  if (s.rank != s.root) plan.round({recv(tree.parent(), all)});
  std::vector<Step> down;
  for (const auto& child : tree.children()) down.push_back(send(child.rank, all));
  plan.round(std::move(down));
  return plan;
}

namespace {

Cost cost(const Shape& s) {
  return {static_cast<std::size_t>(log2_floor(s.size)), static_cast<std::size_t>(log2_ceil(s.size)) * s.count};
}

}  // namespace

namespace catalog_entries {
extern const Algorithm broadcast_binomial{
    .kind = Kind::broadcast,
    .name = "binomial",
    .idea = "a binomial tree: those who have the data double every round, for small buffers",
    .plan = pieces::broadcast_binomial,
    .cost = cost,
};
}  // namespace catalog_entries
}  // namespace tutti
