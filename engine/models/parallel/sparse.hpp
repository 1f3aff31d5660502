// SparseTower: locally connected filters, pooling and local contrast normalisation under a dense layer, over a mesh or
// on one rank.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "engine/models/makers.hpp"
#include "engine/models/model.hpp"
#include "engine/models/parallel/layer_cost.hpp"
#include "engine/models/parallel/layout.hpp"
#include "nn/parallel/space_layers.hpp"

namespace tutti::engine {

/// Stages of locally connected filters, L2 pooling and local contrast normalisation; then a dense layer. Takes whole
/// images and returns whole scores, the same on all ranks that share the network. Each rank has the filters of its
/// own positions, so their gradients are not sent. Le et al., "Building high-level features using large scale
/// unsupervised learning", ICML 2012.
class SparseTower final : public torch::nn::Module {
 public:
  /// Throws Error{unsupported, invalid} with the layer's name and the mesh.
  SparseTower(const models::Request& request, const Layout& layout, const SplitChoices& choices);

  at::Tensor forward(const at::Tensor& images);
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

  std::size_t stages() const noexcept { return filters_.size(); }
  nn::SpaceLocalFilter filters(std::size_t stage) const { return filters_.at(stage); }
  /// A new layer with a copy of a stage's filters, to reconstruct images with.
  nn::SpaceLocalFilter copy_of(std::size_t stage) const;
  /// Per sample: half the squared error of reconstructing the input of stage `stage` from the outputs of its filters by
  /// `decoder`, plus `sparsity` times the sum of its pooled outputs. The same on all ranks.
  at::Tensor cost(std::size_t stage, nn::SpaceLocalFilter decoder, double sparsity, const at::Tensor& images);
  const nn::Space& space() const noexcept { return space_; }

  /// Scales all filters to length 1.
  void normalise();

 private:
  nn::Tile stage(std::size_t number, const nn::Tile& tile);
  nn::LocalFilterOptions filter_options(std::size_t stage) const;

  nn::Space space_;
  std::int64_t kernel_;
  std::vector<nn::Tile> inputs_;  // inputs of the stages, without values
  std::vector<std::int64_t> channels_;
  std::vector<nn::SpaceLocalFilter> filters_;
  std::vector<nn::SpacePool> pools_;
  nn::SpaceLcn contrast_{nullptr};
  nn::SpaceHead head_{nullptr};
  std::vector<LayerCost> costs_;
};

namespace models {
/// The function for Network::after_update of a SparseTower.
std::function<void()> filters_of_length_1(const std::shared_ptr<torch::nn::Module>& tower);
}  // namespace models

}  // namespace tutti::engine
