// Tree reduce-scatter. A binomial reduce of all blocks to rank 0, then a binomial scatter from it. Few messages are in
// flight at a time, which suits more ranks than cores; blocks must be small, since all of them go up every branch.
//
//   rounds ceil(log2 p) + floor(log2 p)     scratch p n
//   elements (p + s - 1) n, n the count of one block and s the ranks of the largest subtree below the root
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, 0};
  const Blocks block(s.count, s.size, s.in_blocks);
  const Slice own = out({0, block[s.rank].count});
  if (s.size == 1) return pieces::alone(own.count);
  Schedule whole =
      pieces::fold_up(pieces::binomial({s.rank, s.size}, tree.root), block.total(), scratch({0, block.total()}));
  if (tree.span() > 1) whole.use_scratch(block.total());
  whole.round([=](Round& round) {
    if (tree.rank == tree.root) return;
    const Range mine = block.run(tree.rank, tree.span());
    round.add(recv(tree.parent(), tree.span() == 1 ? own : scratch(mine)));
  });
  if (tree.span() == 1) return whole;
  whole.round([=](Round& round) {
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      round.add(send(child.rank, scratch(block.run(child.rank, child.span))));
    }
    round.add(copy(own, scratch(block[tree.rank])));
  });
  return whole;
}

Cost cost(const Shape& s) {
  if (s.size == 1) return {};
  const int half = 1 << (log2_ceil(s.size) - 1);  // the label of the root's first child
  const int below = std::max({s.size - half, half / 2, 1}) - 1;
  return {log2_ceil(s.size) + log2_floor(s.size), times(s.size + below, s.count)};
}

}  // namespace

extern const Algorithm reduce_scatter_tree{
    .kind = Kind::reduce_scatter,
    .name = "tree",
    .idea = "a binomial reduce to rank 0 and a binomial scatter from it: the fewest messages in all, for tiny blocks",
    .plan = plan,
    .cost = cost,
    .variable = true,
    .lanes = false,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return there_and_back(binomial(flat(s), s.size, s.size * number(s.count), true),
                                blocks_by_tree(s, log2_floor(s.size)));
        },
};

}  // namespace tutti
