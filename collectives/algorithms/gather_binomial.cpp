// Binomial gather. Each rank sends its parent in the binomial tree the blocks of its whole subtree in one message.
// Numbered from the root, the ranks of a subtree are consecutive, so their blocks are contiguous in scratch; the root
// receives them in place, in two pieces if a subtree wraps around the last rank.
//
//   rounds floor(log2 p), the depth of the tree     elements n times the largest subtree, at most p/2     scratch that
//   too
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include <algorithm>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, s.root};
  const Blocks block(s.count, s.size);
  const Blocks packed = block.rotated(s.root);
  const Slice own = in({0, block[s.rank].count});
  Schedule gather;
  std::vector<Step> up;
  if (s.rank == s.root) {
    up.push_back(copy(out(block[s.rank]), own));
    for (const auto& child : tree.children())
      for (const auto& part : pieces::subtree(tree, child.label, child.span))
        up.push_back(recv(child.rank, out(block.run(tree.rank_of(part.label), part.span))));
    gather.round(std::move(up));
    return gather;
  }
  const auto kept = [&](int label, int span) { return pieces::within(packed, tree, label, span); };
  const bool is_leaf = tree.span() == 1;
  if (!is_leaf) {
    up.push_back(copy(kept(tree.label(), 1), own));
    for (const auto& child : tree.children()) up.push_back(recv(child.rank, kept(child.label, child.span)));
    gather.use_scratch(packed.run(tree.label(), tree.span()).count);
    gather.round(std::move(up));
  }
  // One message to the parent; if that is the root, one per contiguous part, so that it receives in place.
  std::vector<Step> hand_on;
  if (is_leaf)
    hand_on.push_back(send(tree.parent(), own));
  else if (tree.parent() != s.root)
    hand_on.push_back(send(tree.parent(), kept(tree.label(), tree.span())));
  else
    for (const auto& part : pieces::subtree(tree, tree.label(), tree.span()))
      hand_on.push_back(send(s.root, kept(part.label, part.span)));
  gather.round(std::move(hand_on));
  return gather;
}

Cost cost(const Shape& s) {
  const int half = 1 << (log2_ceil(s.size) - 1);  // reach of the root's largest child
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
};

}  // namespace tutti
