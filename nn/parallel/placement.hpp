// Placements: how the ranks of a group hold one tensor together, and the ways from one placement to another, for
// autograd too.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// Shard(dim): each rank has a part along that dimension. Replicate: each has all. Partial(op): what each has is to be
/// reduced by op to be the tensor.
struct Placement {
  enum class Kind : std::uint8_t { shard, replicate, partial } kind = Kind::replicate;
  std::int64_t dim = 0;  ///< shard
  Reduction op = sum;    ///< partial

  std::string text() const;  ///< "Shard(1)"
};
inline Placement Shard(std::int64_t dim) { return {Placement::Kind::shard, dim, sum}; }
inline Placement Replicate() { return {}; }
inline Placement Partial(Reduction op = sum) { return {Placement::Kind::partial, 0, op}; }

/// A tensor as the ranks of a group hold it. Of a shard the cut says which part is whose; parts may be uneven, or
/// empty.
struct Placed {
  at::Tensor local;
  Placement placement;
  Group group;
  std::optional<Cut> cut = {};  ///< of placement.dim, where that is a shard

  std::vector<std::int64_t> sizes() const;  ///< of the whole tensor
};

/// The same tensor on every rank, as a Placed; and parts of any sizes, which costs an allgather of one number.
Placed replicated(at::Tensor whole, Group group);
Placed shards(at::Tensor part, std::int64_t dim, Group group);
Placed partial(at::Tensor term, Group group, Reduction op = sum);

/// The same tensor otherwise placed. New shards are even, or as `cut` says. Collective:
///
///   Shard -> Replicate   allgather          Replicate -> Shard     nothing is sent
///   Shard -> Shard       alltoall           Partial   -> Replicate allreduce
///   Partial -> Shard     reduce_scatter     anything  -> Partial   rank 0 keeps it, the others have zeros (sum)
///
/// Gradients go the way back: that of a shard is a shard, that of a replica is whole and the same on every rank, as is
/// that of a term of a sum. Twice differentiable. Throws Error{unsupported} for gradients of other partials than
/// sums and means.
Placed redistribute(const Placed& tensor, const Placement& to, std::optional<Cut> cut = {});

// The conjugate pairs that parallel layers are made of. Each is the other's gradient.

/// forward: nothing; backward: allreduce. Before a layer whose ranks each use the input for something else.
at::Tensor copy_to(const at::Tensor& input, const Group& group);
/// forward: allreduce; backward: nothing. After a layer whose ranks each have a term of the output.
at::Tensor reduce_from(const at::Tensor& term, const Group& group);
/// forward: this rank's part along `dim`; backward: allgather.
at::Tensor scatter_to(const at::Tensor& input, std::int64_t dim, const Cut& cut, const Group& group);
/// forward: allgather along `dim`; backward: this rank's part. What follows is to be the same on every rank.
at::Tensor gather_from(const at::Tensor& part, std::int64_t dim, const Cut& cut, const Group& group);

/// For sequences in parts: allgather forward and reduce_scatter backward, and the other way round.
at::Tensor gather_sequence(const at::Tensor& part, std::int64_t dim, const Cut& cut, const Group& group);
at::Tensor scatter_sequence(const at::Tensor& term, std::int64_t dim, const Cut& cut, const Group& group);

/// From parts along one dimension to parts along another, and back: alltoall both ways.
at::Tensor exchange_dims(const at::Tensor& part, std::int64_t from, const Cut& cut, std::int64_t to, const Cut& new_cut,
                         const Group& group);

}  // namespace tutti::nn
