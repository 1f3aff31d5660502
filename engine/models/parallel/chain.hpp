// ParallelChain: a chain of layers split over a mesh, with images in tiles and dense layers in parts.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/models/layers.hpp"
#include "engine/models/parallel/layer_cost.hpp"
#include "engine/models/parallel/layout.hpp"
#include "nn/parallel/convolution.hpp"

namespace tutti::engine {

/// The values between two layers: images, in tiles or whole; or rows of features.
struct Flow {
  std::optional<nn::Tile> tile;
  at::Tensor values;
};

/// The form of the images that a chain begins or ends with.
struct Between {
  Tiling tiling;
  std::int64_t channels = 0;
  bool in_tiles = false;      ///< otherwise whole on every rank
  bool has_gradient = false;  ///< true if earlier layers have parameters
};

/// Input samples and output scores are whole and the same on all ranks that share the network. Parameters have the
/// names of the sequential Chain. Between layers, values are gathered or split again as the next layer needs.
class ParallelChain final : public torch::nn::Module {
 public:
  /// For a part of a network: takes images in the form `input`. Returns images, or scores if the layers end with those.
  ParallelChain(const Between& input, std::vector<Layer> layers, std::int64_t classes, Layout layout,
                SplitChoices choices);
  Flow pass(Flow flow);
  Between output() const;  ///< of a chain that ends with images

  /// Throws Error{unsupported} or {invalid} with the layer's name, its width and the mesh.
  ParallelChain(const SampleShape& input, std::vector<Layer> layers, std::int64_t classes, Layout layout,
                SplitChoices choices);

  at::Tensor forward(const at::Tensor& batch);
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

 private:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  /// The function of an element-wise layer, which can be applied to parts of the values; empty for any other layer.
  static Function element_wise(const Layer& layer);

  void add_all();
  void add(std::size_t index);
  void add_conv(const Layer& layer);
  void add_pool(const Layer& layer);
  void add_norm(const Layer& layer);
  void add_grid(const Layer& layer);
  void add_dropout(const Layer& layer);
  void add_flatten(std::size_t index);
  void add_linear(std::size_t index);
  void add_head(const Layer& layer, const std::string& name, std::int64_t units);
  void add_dense(const Layer& layer, const std::string& name, std::int64_t units, Split split);

  std::string next_name(const std::string& kind);
  Split split_of(const std::string& name, const Layer& layer);
  bool is_paired(std::size_t index) const;
  Split linear_split(std::size_t index) const;
  nn::Sizes padding_of(const Layer& layer) const;
  const nn::Space& space() const { return in_tiles_ ? layout_.space : layout_.one; }
  [[noreturn]] void refuse(const Layer& layer, const std::string& name, const std::string& why) const;

  // Conversions between layers. Their cost counts for the next layer.
  void place_images(const std::string& name, const Layer& layer);
  void into_tiles();
  void bring_together();
  void need_rows();  // makes rows whole on every rank
  LayerCost& begin(const std::string& name, Split split);
  void end(LayerCost& cost);
  /// begin() for a layer that slides windows over images, before width_ is set. Sets the tiling of the images to that
  /// of the layer's outputs.
  LayerCost& begin_windows(const std::string& name, std::span<const Window> windows);
  template <class Options>
  Options windowed(const char* kind, const Layer& layer);
  template <class Module>
  void slide(Module module) {
    steps_.push_back([module = std::move(module)](Flow flow) mutable { return Flow{module->forward(*flow.tile), {}}; });
  }

  std::vector<Layer> layers_;
  std::int64_t classes_;
  Layout layout_;
  SplitChoices choices_;
  std::optional<nn::Tile> shape_;  // tiling of images, without values
  std::int64_t width_ = 0;         // channels, or features of a row
  bool in_tiles_ = false, prefers_tiles_ = true;
  bool is_flat_ = false;       // rows of features; still in tiles if shape_ is set
  std::optional<Cut> parts_;   // how rows are split
  bool has_gradient_ = false;  // the input has a gradient
  bool has_image_layer_ = false;
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
  std::vector<LayerCost> costs_;
  std::int64_t between_forward_ = 0, between_backward_ = 0;
  std::vector<std::function<Flow(Flow)>> steps_;
};

}  // namespace tutti::engine
