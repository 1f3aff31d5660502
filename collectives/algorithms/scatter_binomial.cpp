// Binomial scatter. Each rank receives the blocks of its whole subtree in one message, and sends each child its part.
// Numbered from the root, the ranks of a subtree are consecutive, so the blocks are contiguous in scratch; the root
// sends from `in`, in two pieces if a subtree wraps around the last rank.
//
//   rounds floor(log2 p), the depth of the tree     elements (p-1) n, n the count of one block     scratch at most n
//   p/2
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

std::vector<pieces::Part> pieces::subtree(const BinomialTree& tree, int label, int span) {
  const int wrap = tree.size - tree.root;  // label of rank 0, unless it is the root
  if (label < wrap && wrap < label + span) return {{label, wrap - label}, {wrap, label + span - wrap}};
  return {{label, span}};
}

Slice pieces::within(const Blocks& packed, const BinomialTree& tree, int label, int span) {
  const Range run = packed.run(label, span);
  return scratch({run.offset - packed.run(0, tree.label()).count, run.count});
}

namespace {

Schedule plan(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, s.root};
  const Blocks block(s.count, s.size);
  const Blocks packed = block.rotated(s.root);
  const Slice own = out({0, block[s.rank].count});
  Schedule scatter;
  std::vector<Step> down;
  if (s.rank == s.root) {
    for (const auto& child : tree.children())
      for (const auto& part : pieces::subtree(tree, child.label, child.span))
        down.push_back(send(child.rank, in(block.run(tree.rank_of(part.label), part.span))));
    down.push_back(copy(own, in(block[s.rank])));
    scatter.round(std::move(down));
    return scatter;
  }
  const auto kept = [&](int label, int span) { return pieces::within(packed, tree, label, span); };
  if (tree.span() == 1) {
    scatter.round({recv(tree.parent(), own)});
    return scatter;
  }
  std::vector<Step> arrive;
  if (tree.parent() != s.root)
    arrive.push_back(recv(tree.parent(), kept(tree.label(), tree.span())));
  else
    for (const auto& part : pieces::subtree(tree, tree.label(), tree.span()))
      arrive.push_back(recv(s.root, kept(part.label, part.span)));
  scatter.use_scratch(packed.run(tree.label(), tree.span()).count);
  scatter.round(std::move(arrive));
  for (const auto& child : tree.children()) down.push_back(send(child.rank, kept(child.label, child.span)));
  down.push_back(copy(own, kept(tree.label(), 1)));
  scatter.round(std::move(down));
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
};

}  // namespace tutti
