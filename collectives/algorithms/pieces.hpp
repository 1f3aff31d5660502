// Pieces: plans that other plans are made of. Each is defined in the file of the algorithm that it is the heart of.
#pragma once

#include <cstddef>

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

/// Copies `in`, block by block, to the same places of scratch (see alltoall_pairwise.cpp).
void set_aside(Schedule& plan, const Blocks& blocks);

}  // namespace tutti::pieces
