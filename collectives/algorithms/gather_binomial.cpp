// Binomial gather. Each rank sends its parent in the binomial tree the blocks of its whole subtree in one message.
// Numbered from the root, the ranks of a subtree are consecutive, so their blocks are contiguous in scratch; the root
// receives them in place, in two pieces if a subtree wraps around the last rank.
//
//   rounds floor(log2 p), the depth of the tree
//   elements n times the ranks of the largest subtree, at most p/2     scratch the same
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule at_root(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, s.root};
  const Blocks block(s.count, s.size);
  Schedule gather;
  gather.round([=](Round& round) {
    round.add(copy(out(block[tree.rank]), in({0, block[tree.rank].count})));
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      for (const auto& part : pieces::subtree(tree, child.label, child.span))
        round.add(recv(child.rank, out(block.run(tree.rank_of(part.label), part.span))));
    }
  });
  return gather;
}

Schedule plan(const Shape& s) {
  if (s.rank == s.root) return at_root(s);
  const BinomialTree tree{s.rank, s.size, s.root};
  const Blocks packed = Blocks(s.count, s.size).rotated(s.root);
  const Slice own = in({0, s.count});
  const auto kept = [=](int label, int span) { return pieces::within(packed, tree, label, span); };
  Schedule gather;
  if (tree.span() == 1) {
    gather.round([=](Round& round) { round.add(send(tree.parent(), own)); });
    return gather;
  }
  gather.use_scratch(packed.run(tree.label(), tree.span()).count);
  gather.round([=](Round& round) {
    round.add(copy(kept(tree.label(), 1), own));
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      round.add(recv(child.rank, kept(child.label, child.span)));
    }
  });
  // One message to the parent; if that is the root, one per contiguous part, so that it receives in place.
  gather.round([=](Round& round) {
    if (tree.parent() != tree.root) return round.add(send(tree.parent(), kept(tree.label(), tree.span())));
    for (const auto& part : pieces::subtree(tree, tree.label(), tree.span()))
      round.add(send(tree.root, kept(part.label, part.span)));
  });
  return gather;
}

Cost cost(const Shape& s) {
  const int half = 1 << (log2_ceil(s.size) - 1);  // the label of the root's first child
  return {log2_floor(s.size), times(std::max({s.size - half, half / 2, 1}), s.count)};
}

}  // namespace

extern const Algorithm gather_binomial{
    .kind = Kind::gather,
    .name = "binomial",
    .idea = "whole subtrees up a binomial tree: few messages at the root, for small blocks",
    .plan = plan,
    .cost = cost,
    .lanes = false,
    .expense = [](const Shape& s) { return expenses::blocks_by_tree(s, log2_ceil(s.size)); },
};

}  // namespace tutti
