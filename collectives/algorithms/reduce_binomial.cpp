// Binomial reduce. The mirror image of the binomial broadcast: a rank folds what its children have gathered into its
// own contribution, the smallest subtree first, and hands the result to its parent.
// Partial results live in scratch, at the root in `out`; a leaf sends straight from `in`.
//
//   rounds ceil(log2 p)     elements n     scratch n
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include <ranges>

#include "collectives/algorithm.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace tutti {

Schedule pieces::reduce_binomial(const Shape& s) {
  if (s.size == 1) return alone(s.count);
  const BinomialTree tree{s.rank, s.size, s.root};
  const Range all{0, s.count};
  const bool is_root = s.rank == s.root;
  const Slice partial = is_root ? out(all) : scratch(all);
  Slice gathered = in(all);
  Schedule plan;
  for (const auto& child : tree.children() | std::views::reverse) {
    plan.round({recv_reduce(child.rank, partial, gathered)});
    gathered = partial;
  }
  if (gathered.memory == Memory::scratch) plan.use_scratch(s.count);
  if (is_root)
    plan.reduced(out(all));
  else
    plan.round({send(tree.parent(), gathered)});
  return plan;
}

namespace {

Cost cost(const Shape& s) { return {static_cast<std::size_t>(log2_ceil(s.size)), s.size == 1 ? 0 : s.count}; }

}  // namespace

namespace catalog_entries {
extern const Algorithm reduce_binomial{
    .kind = Kind::reduce,
    .name = "binomial",
    .idea = "a binomial tree upwards, folded at every node, for small buffers",
    .plan = pieces::reduce_binomial,
    .cost = cost,
};
}  // namespace catalog_entries
}  // namespace tutti
