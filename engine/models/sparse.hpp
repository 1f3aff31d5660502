// SparseTower: layers of local filters, pools and local contrast under a dense layer, over a mesh or in one place.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "engine/models/layer_cost.hpp"
#include "engine/models/layout.hpp"
#include "engine/models/makers.hpp"
#include "engine/models/model.hpp"
#include "nn/parallel/space_layers.hpp"

namespace tutti::engine {

/// Stages of filters that each position has for itself, roots of sums of squares over windows, and local contrast
/// normalisation; then scores. Takes whole images and gives whole scores, the same on all ranks of the layout; every
/// rank has the filters of its own positions, whose gradients are never sent. Le et al., "Building high-level features
/// using large scale unsupervised learning", ICML 2012.
class SparseTower final : public torch::nn::Module {
 public:
  /// Throws Error{unsupported} or {invalid} with the layer's name and the mesh.
  SparseTower(const models::Request& request, const Layout& layout, const SplitChoices& choices);

  at::Tensor forward(const at::Tensor& images);
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

  std::size_t stages() const noexcept { return filters_.size(); }
  nn::SpaceLocalFilter filters(std::size_t stage) const { return filters_.at(stage); }
  /// Another layer of the same shape, with the same filters: to rebuild images with.
  nn::SpaceLocalFilter copy_of(std::size_t stage) const;
  /// Of each sample: half of the squared error with which `decoder` rebuilds what stage `stage` sees from its filters'
  /// outputs, and `sparsity` times the sum of its pool's outputs. The same on all ranks.
  at::Tensor cost(std::size_t stage, nn::SpaceLocalFilter decoder, double sparsity, const at::Tensor& images);
  const nn::Space& space() const noexcept { return space_; }

  /// All filters of length 1.
  void normalise();

 private:
  nn::Tile stage(std::size_t number, const nn::Tile& tile);
  nn::LocalFilterOptions filter_options(std::size_t stage) const;

  nn::Space space_;
  std::int64_t kernel_;
  std::vector<nn::Tile> inputs_;  // shapes of what stages see
  std::vector<std::int64_t> channels_;
  std::vector<nn::SpaceLocalFilter> filters_;
  std::vector<nn::SpacePool> pools_;
  nn::SpaceLcn contrast_{nullptr};
  nn::SpaceHead head_{nullptr};
  std::vector<LayerCost> costs_;
};

namespace models {
/// Network::after_update of a SparseTower.
std::function<void()> filters_of_length_1(const std::shared_ptr<torch::nn::Module>& tower);
}  // namespace models

}  // namespace tutti::engine
