// A transformer block whose heads and dense layers are split over all ranks; it learns to predict the previous symbol:
// tutti run -np 2 examples/nn_gpt_block
#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cstdio>

#include "nn/parallel/attention.hpp"
#include "nn/parallel/linear.hpp"

namespace nn = tutti::nn;

constexpr std::int64_t vocabulary = 16, width = 32, heads = 4, positions = 12;

/// Forward and backward need one allreduce each for the attention, and one for the pair of dense layers.
struct Block : torch::nn::Module {
  explicit Block(const nn::Group& ranks)
      : attention(register_module(
            "attention",
            nn::ParallelAttention(width, heads, ranks, nn::ParallelAttentionOptions{.causal = true, .seed = 3}))),
        low(register_module("low",
                            nn::ColumnParallelLinear(width, 4 * width, ranks, nn::ParallelLinearOptions{.seed = 4}))),
        high(register_module("high",
                             nn::RowParallelLinear(4 * width, width, ranks, nn::ParallelLinearOptions{.seed = 5}))) {}

  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = symbols->forward(tokens) + places->forward(at::arange(positions, at::kLong));
    x = x + attention->forward(norm1->forward(x));
    x = x + high->forward(at::gelu(low->forward(norm2->forward(x))));
    return x.matmul(symbols->weight.t());
  }

  torch::nn::Embedding symbols = register_module("symbols", torch::nn::Embedding(vocabulary, width));
  torch::nn::Embedding places = register_module("places", torch::nn::Embedding(positions, width));
  torch::nn::LayerNorm norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  torch::nn::LayerNorm norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  nn::ParallelAttention attention;
  nn::ColumnParallelLinear low;
  nn::RowParallelLinear high;
};

int main() try {
  auto world = tutti::Communicator::from_env();
  const nn::Group ranks = nn::group_of(world);
  torch::manual_seed(1);  // parameters that are not split, and the samples, are the same on every rank
  Block block(ranks);
  torch::optim::Adam optimizer(block.parameters(), torch::optim::AdamOptions(3e-3));
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    const at::Tensor tokens = at::randint(vocabulary, {16, positions}, at::kLong);
    optimizer.zero_grad();
    const at::Tensor scores = block.forward(tokens).slice(1, 1);  // the first position has no predecessor
    const at::Tensor error = torch::nn::functional::cross_entropy(scores.reshape({-1, vocabulary}),
                                                                  tokens.slice(1, 0, positions - 1).reshape({-1}));
    error.backward();
    optimizer.step();
    loss = error.item<double>();
  }
  if (world.rank() == 0) std::printf("%d ranks: loss %.4f\n", world.size(), loss);
  return loss < 0.5 ? 0 : 1;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
