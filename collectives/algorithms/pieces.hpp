// Pieces: plans that other plans are made of. Each is defined in the file of the algorithm that it is the heart of.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/geometry.hpp"
#include "collectives/plan/schedule.hpp"

namespace tutti {
class Hosts;
}

namespace tutti::pieces {

/// What a group of one does: out = in.
inline Schedule alone(std::size_t count) {
  Schedule plan;
  plan.round({copy(out({0, count}), in({0, count}))});
  return plan;
}

/// Every rank's block once round the ring into everyone's `out`; `mine` is where this rank's block lies
/// at first (see allgather_ring.cpp).
Schedule circulate(Ring ring, const Blocks& block, Slice mine);

/// The same blocks lie in `in` and `out`: every block once round the ring, folded at each stop, into the `out` of
/// the rank of its number. No fold is called the last (see allreduce_ring.cpp).
Schedule fold_around(Ring ring, const Blocks& block);

/// Allreduces (see allreduce_ring.cpp, allreduce_recursive_doubling.cpp).
Schedule allreduce_ring(const Shape& s);
Schedule allreduce_recursive_doubling(const Shape& s);

/// A rank's place in a tree: its parent, -1 at the root, and its children, the one that leads farthest first.
struct Node {
  int parent = -1;
  std::vector<int> children = {};
};
using Tree = Node (*)(Ring ring, int root);
Node binomial(Ring ring, int root);  // broadcast_binomial.cpp
Node chain(Ring ring, int root);     // broadcast_chain.cpp: one child
/// `tree` over the hosts, from the root's host on, one rank of each; and `tree` inside every host from that rank on
/// (see broadcast_hierarchical.cpp).
Node tree_of_hosts(const Shape& s, Tree tree);

/// The root's `out` down a tree (see broadcast_binomial.cpp).
Schedule hand_down(const Node& node, std::size_t count);
Schedule broadcast_binomial(const Shape& s);

/// All `in` up a tree, folded on the way, into the root's `out` (see reduce_binomial.cpp).
Schedule fold_up(const Node& node, std::size_t count);
Schedule reduce_binomial(const Shape& s);

/// `core`, which plans an allreduce for powers of two only, for any size (see allreduce_recursive_doubling.cpp).
Schedule fold_extra_ranks(const Shape& s, Schedule (*core)(const Shape&));

/// Everyone's contribution to `mine`, a slice of `in`, folded in rank order into `into`: the others'
/// are received into scratch (see allreduce_direct.cpp).
void receive_all_and_fold(Schedule& plan, std::vector<Step> sends, const Shape& s, Slice into, Slice mine);

/// The subtree [label, label + span) as parts whose ranks follow one another without wrapping round the last rank
/// (see scatter_binomial.cpp).
struct Part {
  int label, span;
};
std::vector<Part> subtree(const BinomialTree& tree, int label, int span);

/// Where the blocks of the labels [label, label + span) lie in the scratch of a rank that holds its whole subtree,
/// `packed` in the order of the labels.
Slice within(const Blocks& packed, const BinomialTree& tree, int label, int span);

}  // namespace tutti::pieces
