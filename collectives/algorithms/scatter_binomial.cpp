// Binomial scatter. Each rank receives the blocks of its whole subtree in one message, and sends each child its part.
// Numbered from the root, the ranks of a subtree are consecutive, so the blocks are contiguous in scratch; the root
// sends from `in`, in two pieces if a subtree wraps around the last rank.
//
//   rounds floor(log2 p), the depth of the tree
//   elements (p-1) n, n the count of one block     scratch at most n p/2
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

pieces::Parts pieces::subtree(const BinomialTree& tree, int label, int span) {
  const int wrap = tree.size - tree.root;  // label of rank 0, unless rank 0 is the root
  if (label < wrap && wrap < label + span) return {{Part{label, wrap - label}, Part{wrap, label + span - wrap}}, 2};
  return {{Part{label, span}, Part{}}, 1};
}

Slice pieces::within(const Blocks& packed, const BinomialTree& tree, int label, int span) {
  const Range run = packed.run(label, span);
  return scratch({run.offset - packed.run(0, tree.label()).count, run.count});
}

namespace {

Schedule at_root(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, s.root};
  const Blocks block(s.count, s.size);
  Schedule scatter;
  scatter.round([=](Round& round) {
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      for (const auto& part : pieces::subtree(tree, child.label, child.span))
        round.add(send(child.rank, in(block.run(tree.rank_of(part.label), part.span))));
    }
    round.add(copy(out({0, block[tree.rank].count}), in(block[tree.rank])));
  });
  return scatter;
}

Schedule plan(const Shape& s) {
  if (s.rank == s.root) return at_root(s);
  const BinomialTree tree{s.rank, s.size, s.root};
  const Blocks packed = Blocks(s.count, s.size).rotated(s.root);
  const Slice own = out({0, s.count});
  const auto kept = [=](int label, int span) { return pieces::within(packed, tree, label, span); };
  Schedule scatter;
  if (tree.span() == 1) {
    scatter.round([=](Round& round) { round.add(recv(tree.parent(), own)); });
    return scatter;
  }
  scatter.use_scratch(packed.run(tree.label(), tree.span()).count);
  scatter.round([=](Round& round) {
    if (tree.parent() != tree.root) return round.add(recv(tree.parent(), kept(tree.label(), tree.span())));
    for (const auto& part : pieces::subtree(tree, tree.label(), tree.span()))
      round.add(recv(tree.root, kept(part.label, part.span)));
  });
  scatter.round([=](Round& round) {
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      round.add(send(child.rank, kept(child.label, child.span)));
    }
    round.add(copy(own, kept(tree.label(), 1)));
  });
  return scatter;
}

}  // namespace

extern const Algorithm scatter_binomial{
    .kind = Kind::scatter,
    .name = "binomial",
    .idea = "whole subtrees down a binomial tree: few messages at the root, for small blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {log2_floor(s.size), times(s.size - 1, s.count)};
    },
    .lanes = false,
    .expense = [](const Shape& s) { return expenses::blocks_by_tree(s, log2_floor(s.size)); },
};

}  // namespace tutti
