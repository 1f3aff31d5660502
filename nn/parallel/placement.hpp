// Placements (as in PyTorch's DTensor): how a tensor is distributed over the ranks of a group. Functions change the
// placement of a tensor, with gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// Shard(dim): each rank holds a part along `dim`. Replicate(): each rank holds the whole tensor. Partial(op): the
/// tensor is the reduction by `op` of the ranks' local tensors.
struct Placement {
  enum class Kind : std::uint8_t { shard, replicate, partial } kind = Kind::replicate;
  std::int64_t dim = 0;  ///< for shard
  Reduction op = sum;    ///< for partial

  std::string text() const;  ///< "Shard(1)"
};
inline Placement Shard(std::int64_t dim) { return {Placement::Kind::shard, dim, sum}; }
inline Placement Replicate() { return {}; }
inline Placement Partial(Reduction op = sum) { return {Placement::Kind::partial, 0, op}; }

/// A distributed tensor: the local tensor of this rank and its placement. Shards may have different sizes and may be
/// empty; `cut` gives the part of each rank.
struct Placed {
  at::Tensor local;
  Placement placement;
  Group group;
  std::optional<Cut> cut = {};  ///< along placement.dim; for shard only

  std::vector<std::int64_t> sizes() const;  ///< of the whole tensor
};

/// Makes a Placed of local tensors. shards() takes shards of any sizes and needs an allgather of one number; the others
/// are local.
Placed replicated(at::Tensor whole, Group group);
Placed shards(at::Tensor part, std::int64_t dim, Group group);
Placed partial(at::Tensor term, Group group, Reduction op = sum);

/// The same tensor with another placement. Shards are even unless `cut` is given. Collective:
///
///   Shard -> Replicate   allgather          Replicate -> Shard     nothing is sent
///   Shard -> Shard       alltoall           Partial   -> Replicate allreduce
///   Partial -> Shard     reduce_scatter     anything  -> Partial   for sum, rank 0 has the values, the others zeros
///
/// The gradient of a shard is a shard; the gradients of a replica and of a Partial are whole and equal on all ranks.
/// Twice differentiable. Throws Error{invalid} if `cut` does not fit; backward throws Error{unsupported} for Partial
/// with an operator other than sum and avg.
Placed redistribute(const Placed& tensor, const Placement& to, std::optional<Cut> cut = {});

// The conjugate operators of parallel layers, named as in Megatron-LM; in each pair, each is the backward of the other.

/// Forward: identity; backward: allreduce. Used before a layer in which each rank uses the input differently.
at::Tensor copy_to(const at::Tensor& input, const Group& group);
/// Forward: allreduce; backward: identity. Used after a layer in which each rank computes a term of the output.
at::Tensor reduce_from(const at::Tensor& term, const Group& group);
/// Forward: this rank's shard along `dim`; backward: allgather.
at::Tensor scatter_to(const at::Tensor& input, std::int64_t dim, const Cut& cut, const Group& group);
/// Forward: allgather along `dim`; backward: this rank's shard. The gradient must be the same on every rank.
at::Tensor gather_from(const at::Tensor& part, std::int64_t dim, const Cut& cut, const Group& group);

/// For sequence parallelism. gather_sequence(): allgather in forward, reduce_scatter in backward; scatter_sequence()
/// the reverse.
at::Tensor gather_sequence(const at::Tensor& part, std::int64_t dim, const Cut& cut, const Group& group);
at::Tensor scatter_sequence(const at::Tensor& term, std::int64_t dim, const Cut& cut, const Group& group);

/// From shards along one dimension to shards along another: alltoall in forward and backward.
at::Tensor exchange_dims(const at::Tensor& part, std::int64_t from, const Cut& cut, std::int64_t to, const Cut& new_cut,
                         const Group& group);

}  // namespace tutti::nn
