// Embedding and cross-entropy with the vocabulary sharded over the ranks of a group.
#pragma once

#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>

#include "nn/parallel/module.hpp"

namespace tutti::nn {

/// Embedding with the rows of its table sharded: weight (vocabulary / p, width). Tokens are replicated, as is the
/// output (tokens..., width). One allreduce of the output in forward, none in backward.
class VocabParallelEmbeddingImpl : public ParallelModule {
 public:
  VocabParallelEmbeddingImpl(std::int64_t vocabulary, std::int64_t width, Group group,
                             std::optional<std::uint64_t> seed = {});
  at::Tensor forward(const at::Tensor& tokens);
  const Cut& cut() const noexcept { return cut_; }

  at::Tensor weight;

 private:
  Group group_;
  Cut cut_;
};
TORCH_MODULE(VocabParallelEmbedding);

/// Mean over the targets of -log softmax(logits)[target]. Logits (samples, vocabulary / p) are sharded along the
/// vocabulary, as a column-parallel layer leaves them. Targets (samples) are i64 and replicated; those equal to
/// `ignore_index` are skipped. Forward has two allreduces, of `samples` and of 2 `samples` numbers; backward has none,
/// and the logits are never gathered. The loss is the same on every rank. Shoeybi et al., "Megatron-LM", 2019.
at::Tensor vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const Cut& cut,
                                        const Group& group, std::int64_t ignore_index = -100);

}  // namespace tutti::nn
