// Binomial reduce: the binomial broadcast in reverse. A rank folds its children's results into its own contribution,
// smallest subtree first, and sends the result to its parent. Partial results are in scratch, at the root in `out`; a
// leaf sends directly from `in`.
//
//   rounds ceil(log2 p)     elements n     scratch n
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include <ranges>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::fold_up(const Node& node, std::size_t count) {
  const Range all{0, count};
  const bool is_root = node.parent < 0;
  if (is_root && node.children.empty()) return alone(count);
  const Slice partial = is_root ? out(all) : scratch(all);
  Slice gathered = in(all);
  Schedule plan;
  for (const int child : node.children | std::views::reverse) {
    plan.round({recv_reduce(child, partial, gathered)});
    gathered = partial;
  }
  if (gathered.memory == Memory::scratch) plan.use_scratch(count);
  if (is_root)
    plan.reduced(out(all));
  else
    plan.round({send(node.parent, gathered)});
  return plan;
}

Schedule pieces::reduce_binomial(const Shape& s) { return fold_up(binomial({s.rank, s.size}, s.root), s.count); }

extern const Algorithm reduce_binomial{
    .kind = Kind::reduce,
    .name = "binomial",
    .idea = "a binomial tree upwards, folded at every node, for small buffers",
    .plan = pieces::reduce_binomial,
    .cost = [](const Shape& s) -> Cost {
      return {log2_ceil(s.size), s.count};
    },
};

}  // namespace tutti
