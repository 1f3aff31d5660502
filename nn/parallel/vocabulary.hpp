// Embeddings and cross-entropy over a vocabulary that lies in parts on the ranks of a group.
#pragma once

#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>

#include "nn/parallel/module.hpp"

namespace tutti::nn {

/// Rows of vectors by token, each rank with its part of the vocabulary: (vocabulary / p, width). Tokens are whole and
/// the same on every rank, as is the output, (tokens..., width). Forward sends one allreduce of the output, backward
/// nothing.
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

/// The mean over targets of -log softmax(logits)[target], for logits (samples, vocabulary / p) in parts along the
/// vocabulary, as a column-parallel layer leaves them. Targets (samples), 64-bit, the same on every rank; those equal
/// to `ignore_index` count as none. Sends two allreduces forward, of samples and of 2 samples numbers, and nothing
/// backward; the logits are never brought together. The loss is the same on every rank.
at::Tensor vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const Cut& cut,
                                        const Group& group, std::int64_t ignore_index = -100);

}  // namespace tutti::nn
