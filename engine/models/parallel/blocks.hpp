// ParallelBlocks: googlenet and the resnets over a mesh, with images in tiles.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/models/makers.hpp"
#include "engine/models/parallel/chain.hpp"

namespace tutti::engine {

/// Takes whole samples and returns whole scores, the same on all ranks that share the network. Parameters have the
/// names of the sequential model. Throws Error{unsupported} if `choices` names single layers.
class ParallelBlocks final : public torch::nn::Module {
 public:
  ParallelBlocks(const models::Request& request, const Layout& layout, const SplitChoices& choices);

  at::Tensor forward(const at::Tensor& batch);
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

 private:
  using ChainPtr = std::shared_ptr<ParallelChain>;
  class Branches;
  void note(const std::string& place, const ParallelChain& chain);

  std::vector<std::function<Flow(const Flow&)>> steps_;
  std::vector<LayerCost> costs_;
};

}  // namespace tutti::engine
