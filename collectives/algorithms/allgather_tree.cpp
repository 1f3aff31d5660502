// Tree allgather. A binomial gather to rank 0, then a binomial broadcast of all blocks from it. The ranks of a subtree
// are consecutive, so every block is received at its final place in `out`. Few messages are in flight at a time, which
// suits more ranks than cores; blocks must be small, since all of them go down every branch.
//
//   rounds 2 floor(log2 p)     elements ceil(log2 p) p n (rank 0), n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, 0};
  const Blocks block(s.count, s.size, s.out_blocks);
  Schedule gather;
  gather.round([=](Round& round) {
    round.add(copy(out(block[tree.rank]), in({0, block[tree.rank].count})));
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      round.add(recv(child.rank, out(block.run(child.rank, child.span))));
    }
  });
  gather.round([=](Round& round) {
    if (tree.rank != tree.root) round.add(send(tree.parent(), out(block.run(tree.rank, tree.span()))));
  });
  gather.then(pieces::hand_down(pieces::binomial({s.rank, s.size}, tree.root), block.total()));
  return gather;
}

}  // namespace

extern const Algorithm allgather_tree{
    .kind = Kind::allgather,
    .name = "tree",
    .idea = "a binomial gather to rank 0 and a binomial broadcast from it: the fewest messages in all, for tiny blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {2 * log2_floor(s.size), times(log2_ceil(s.size) * s.size, s.count)};
    },
    .variable = true,
    .lanes = false,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return there_and_back(blocks_by_tree(s, log2_ceil(s.size)),
                                binomial(flat(s), s.size, s.size * number(s.count), false));
        },
};

}  // namespace tutti
