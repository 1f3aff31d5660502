// Ring attention: positions are sharded, and keys and values are passed around the ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// attend() of (samples, heads, positions, width) with positions sharded over the ranks: each rank passes its part of
/// query, key and value for all heads. The p ranks pass keys and values around a ring; each exchange overlaps the
/// computation with the keys that the rank already has. Forward has p - 1 exchanges; backward has p - 1 of keys and
/// values, and p of their gradients. A rank holds scores for the keys of one part at a time. Parts may have different
/// sizes or be empty. Differentiable once. Collective. Liu et al., "Ring Attention with Blockwise Transformers for
/// Near-Infinite Context", 2023.
at::Tensor attend_ring(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                       const Cut& positions, const Group& group);

/// Attention of some queries over a subset of the keys.
struct Attended {
  at::Tensor values;      ///< (..., positions, width)
  at::Tensor log_weight;  ///< (..., positions, 1): log of the sum of the exponentials of the scores
};

/// Attention over the union of two disjoint subsets of the keys.
Attended merge(const Attended& one, const Attended& other);

}  // namespace tutti::nn
