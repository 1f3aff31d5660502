// Attention whose heads lie in parts on the ranks of a group.
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

/// Softmax attention of `heads` heads over (samples, positions, width), whole and the same on every rank. Each rank has
/// its heads' rows of the query, key and value weights, (width, width) in all, and their columns of the output's: one
/// allreduce of the output forward, and one of the input's gradient backward. Heads may be uneven; throws
/// Error{invalid} where there are fewer than ranks. Shoeybi et al., 2019.
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

/// q k' / sqrt(width) of (samples, heads, positions, width); causal: minus infinity where a key comes after the query,
/// of queries and keys that begin at one position.
at::Tensor attention_scores(const at::Tensor& query, const at::Tensor& key, bool causal);

/// softmax(q k' / sqrt(width)) v of (samples, heads, positions, width); causal: positions see those before them and
/// themselves.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal);

/// The same for positions in parts, each rank with its part of the sequence and all heads: an alltoall to all positions
/// of a part of the heads, and one back. Forward four alltoalls, backward four. Jacobs et al., "DeepSpeed Ulysses",
/// 2023.
at::Tensor attend_ulysses(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                          const Cut& positions, const Group& group);

}  // namespace tutti::nn
