// Pieces: plans that other plans are made of. Each is defined in the file of the algorithm that it is the heart of.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/geometry.hpp"
#include "collectives/schedule.hpp"

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

/// The root's `out` down a binomial tree (see broadcast_binomial.cpp).
Schedule broadcast_binomial(const Shape& s);

/// All `in` up a binomial tree, folded on the way, into the root's `out` (see reduce_binomial.cpp).
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
