// Pieces: plans that several algorithms use. Each is defined in the file of one of these algorithms.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collectives/plan/algorithm.hpp"
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

/// The chunks of a host's ranks: the first `columns` ranks have one each, the blocks of the others are empty.
inline Blocks chunks_inside(std::size_t count, int columns, int ranks) { return {Chunks(count, columns), ranks}; }

/// Ring allgather of the blocks into every rank's `out`. `mine` is this rank's block at the start (see
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
  std::array<int, 48> list_;  // enough for 12 children on other hosts, and 36 in a radix-4 tree of 4^12 ranks inside
};
using Tree = Node (*)(Ring ring, int root);
Node binomial(Ring ring, int root);  // broadcast_binomial.cpp
Node chain(Ring ring, int root);     // broadcast_chain.cpp: one child
/// A rank's neighbours in nested trees: a `tree` over one rank of each host, from the root's host, and a `tree` inside
/// every host, from that rank. If hosts are grouped by racks, the tree over the hosts is nested in the same way: over
/// one host of each rack, and inside every rack (see broadcast_hierarchical.cpp).
Node tree_of_hosts(const Shape& s, Tree tree);
/// The part over the hosts: the neighbours of `host` in the tree that starts at host `home`.
Node tree_over_hosts(const Hosts& hosts, int host, int home, Tree tree);
/// sent_down(): the most messages that a rank sends down such trees, to other hosts and, inside a host of n ranks, at
/// most within(n). crossing_down(): the elements that cross hosts along such trees.
int sent_down(const Shape& s, Tree tree, int (*within)(int ranks));
Crossing crossing_down(const Shape& s, Tree tree);

/// Broadcasts the root's `out` down a tree (see broadcast_binomial.cpp).
Schedule hand_down(const Node& node, std::size_t count);
Schedule broadcast_binomial(const Shape& s);

/// Reduces all ranks' `in` up a tree into the root's `out`, or its `result` (see reduce_binomial.cpp).
Schedule fold_up(const Node& node, std::size_t count, Slice result);
inline Schedule fold_up(const Node& node, std::size_t count) { return fold_up(node, count, out({0, count})); }
Schedule reduce_binomial(const Shape& s);
/// As fold_up(), but a rank receives from all its children in one round (see reduce_double_tree.cpp).
Schedule fold_up_at_once(const Node& node, std::size_t count);

/// Extends `core`, an allreduce plan for `fitting` ranks, to all ranks of the shape. `fitting` must be at least half of
/// them (see allreduce_recursive_doubling.cpp).
Schedule fold_extra_ranks(const Shape& s, int fitting, Schedule (*core)(const Shape&));

/// Folds the contributions of all ranks of a ring in rank order into `into`, one in each round. Other ranks'
/// contributions are received into scratch, from element `at` on. `mine` is this rank's contribution (see
/// allreduce_direct.cpp).
struct InOrder {
  Ring ring;
  Slice into, mine;
  std::size_t at = 0;

  void receive(Round& round) const;
  void fold_received(Schedule& plan) const;
  Slice contribution(int i) const;
  Step fold_next(int k) const;
};

/// Every rank sends each block of its `in` to the block's owner, which folds all contributions into `into` (see
/// reduce_scatter_direct.cpp).
Schedule fold_at_owners(Ring ring, const Blocks& block, Slice into);

/// Every rank sends `mine` to all others, which receive it into the sender's block in `out` (see allgather_linear.cpp).
Schedule give_to_all(Ring ring, const Blocks& block, Slice mine);

/// movers(): the number of slots j in [0, size) whose digit at `place`, a power of the radix, is `digit`. A Bruck
/// alltoall sends these in one message. all_movers(): the slots that it sends in all rounds (see alltoall_bruck.cpp).
std::size_t movers(int size, int place, int digit, int radix);
std::size_t all_movers(int size, int radix);

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
