// Attention with heads, or the sequence, distributed over the ranks of a group.
#pragma once

#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "nn/parallel/linear.hpp"

namespace tutti::nn {

struct ParallelAttentionOptions {
  bool causal = false;
  bool bias = true;
  std::optional<std::uint64_t> seed = {};
  std::string name = "attention";
};

/// Multi-head softmax attention with tensor parallelism over the heads. Input and output are (samples, positions,
/// width), replicated on every rank. Each rank holds the rows of the query, key and value weights, (width, width), that
/// belong to its heads, and the matching columns of the output weight. One allreduce of the output in forward, one of
/// the input's gradient in backward. Ranks may have different numbers of heads; throws Error{invalid} if there are
/// fewer heads than ranks or `heads` does not divide `width`. Shoeybi et al., "Megatron-LM", 2019.
class ParallelAttentionImpl : public ParallelModule {
 public:
  ParallelAttentionImpl(std::int64_t width, std::int64_t heads, Group group, ParallelAttentionOptions options = {});
  at::Tensor forward(const at::Tensor& input);

  ColumnParallelLinear query{nullptr}, key{nullptr}, value{nullptr};
  RowParallelLinear output{nullptr};

 private:
  std::int64_t head_width_;
  Group group_;
  ParallelAttentionOptions options_;
};
TORCH_MODULE(ParallelAttention);

/// q k' / sqrt(width) for tensors (samples, heads, positions, width). With `causal`, minus infinity for a key after the
/// query; queries and keys must begin at the same position.
at::Tensor attention_scores(const at::Tensor& query, const at::Tensor& key, bool causal);

/// softmax(q k' / sqrt(width)) v for tensors (samples, heads, positions, width). With `causal` a position attends to
/// itself and earlier positions.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal);

/// The same with sequence parallelism: each rank passes its part of the positions with all heads. An alltoall each of
/// query, key and value gives every rank all positions of a part of the heads, and a fourth returns the result to the
/// original layout; backward has four as well. Collective. Jacobs et al., "DeepSpeed Ulysses", 2023.
at::Tensor attend_ulysses(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                          const Cut& positions, const Group& group);

}  // namespace tutti::nn
