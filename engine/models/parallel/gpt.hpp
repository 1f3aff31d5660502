// ParallelGpt: the transformer of the model table over a mesh: heads and dense layers sharded along `tensor`, positions
// along `sequence`.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "engine/models/makers.hpp"
#include "engine/models/parallel/layer_cost.hpp"
#include "engine/models/parallel/layout.hpp"

namespace tutti::engine {

/// Takes whole token ids and returns whole scores, the same on all ranks that share the network. Parameters have the
/// names of model=gpt. The values that dropout zeroes do not depend on the mesh.
class ParallelGpt final : public torch::nn::Module {
 public:
  /// Throws Error{unsupported, invalid} with the block's name, its width and the mesh.
  ParallelGpt(const models::Request& request, Layout layout, const SplitChoices& choices);
  ~ParallelGpt() override;

  at::Tensor forward(const at::Tensor& tokens);
  /// For samples with a full context.
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

 private:
  class Block;
  void add_costs(std::int64_t width, std::int64_t classes, std::int64_t heads);

  const Layout layout_;
  const std::int64_t context_;
  const bool tied_;
  const double dropout_;
  at::Tensor tokens_, positions_, norm_weight_, norm_bias_, head_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<LayerCost> costs_;
};

}  // namespace tutti::engine
