// Attention over positions in parts, with keys and values that go around a ring of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// attend() of (samples, heads, positions, width) for positions in parts, each rank with its part of the queries, keys
/// and values of all heads. Each rank's keys and values visit every other one, while scores of those that are there are
/// computed: p - 1 passes of both forward, and backward as many with p of their gradients. No rank ever has scores of
/// more keys than one part has. Any number of heads; parts may be uneven, or empty. Differentiable once. Collective.
/// Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023.
at::Tensor attend_ring(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                       const Cut& positions, const Group& group);

/// What queries saw of some keys.
struct Attended {
  at::Tensor values;      ///< (..., positions, width)
  at::Tensor log_weight;  ///< (..., positions, 1): the logarithm of the sum of the scores' exponentials
};

/// What they saw of the keys of both.
Attended merge(const Attended& one, const Attended& other);

}  // namespace tutti::nn
