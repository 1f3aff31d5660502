// Pieces: plans used by several algorithms. Each is defined in the file of the algorithm that it belongs to.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collectives/plan/geometry.hpp"
#include "collectives/plan/schedule.hpp"

namespace tutti {
class Hosts;
}

namespace tutti::pieces {

/// The plan for a group of one rank: out = in.
inline Schedule alone(std::size_t count) {
  Schedule plan;
  plan.round([=](Round& round) { round.add(copy(out({0, count}), in({0, count}))); });
  return plan;
}

/// Ring allgather of the blocks into every rank's `out`; `mine` is where this rank's block is at the start (see
/// allgather_ring.cpp).
Schedule circulate(Ring ring, const Blocks& block, Slice mine);

/// Ring reduce-scatter where `in` and `out` have the same blocks: block i, folded over all ranks, ends in `out` of
/// rank i, complete (see allreduce_ring.cpp).
Schedule fold_around(Ring ring, const Blocks& block);

/// Allreduce plans (see allreduce_ring.cpp, allreduce_recursive_doubling.cpp).
Schedule allreduce_ring(const Shape& s);
Schedule allreduce_recursive_doubling(const Shape& s);

/// A rank's neighbours in a tree: its parent, -1 at the root, and its children, largest subtree first.
struct Node {
  int parent = -1;
  std::span<const int> children() const noexcept { return std::span(list_).first(static_cast<std::size_t>(count_)); }
  void add(int child) noexcept { list_[static_cast<std::size_t>(count_++)] = child; }

 private:
  int count_ = 0;
  std::array<int, 32> list_;  // the children of two binomial trees, one over hosts and one inside a host
};
using Tree = Node (*)(Ring ring, int root);
Node binomial(Ring ring, int root);  // broadcast_binomial.cpp
Node chain(Ring ring, int root);     // broadcast_chain.cpp: one child
/// A `tree` over the hosts, starting at the root's host, with one rank of each; and a `tree` inside every host,
/// starting at that rank (see broadcast_hierarchical.cpp).
Node tree_of_hosts(const Shape& s, Tree tree);

/// Broadcasts the root's `out` down a tree (see broadcast_binomial.cpp).
Schedule hand_down(const Node& node, std::size_t count);
Schedule broadcast_binomial(const Shape& s);

/// Reduces all ranks' `in` up a tree into the root's `out` (see reduce_binomial.cpp).
Schedule fold_up(const Node& node, std::size_t count);
Schedule reduce_binomial(const Shape& s);

/// Extends `core`, an allreduce plan for powers of two, to any size (see allreduce_recursive_doubling.cpp).
Schedule fold_extra_ranks(const Shape& s, Schedule (*core)(const Shape&));

/// Receives all others' contributions to `mine`, a slice of `in`, into scratch; and folds all contributions in rank
/// order into `into`, one in each round (see allreduce_direct.cpp).
void receive_all(const Shape& s, Slice into, Slice mine, Round& round);
void fold_received(Schedule& plan, const Shape& s, Slice into, Slice mine);

/// A subtree [label, label + span), split into parts whose ranks are consecutive without wrapping around the last
/// rank (see scatter_binomial.cpp).
struct Part {
  int label, span;
};
struct Parts {
  std::array<Part, 2> list;
  std::size_t count;
  const Part* begin() const noexcept { return list.data(); }
  const Part* end() const noexcept { return list.data() + count; }
};
Parts subtree(const BinomialTree& tree, int label, int span);

/// The slice with the blocks of the labels [label, label + span) in the scratch of a rank that holds its whole
/// subtree. `packed` are the blocks in label order.
Slice within(const Blocks& packed, const BinomialTree& tree, int label, int span);

}  // namespace tutti::pieces
