// ParallelChain: a chain of layers over a mesh, with images in tiles and dense layers in parts.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/models/layer_cost.hpp"
#include "engine/models/layers.hpp"
#include "engine/models/layout.hpp"
#include "nn/parallel/convolution.hpp"

namespace tutti::engine {

/// What goes from layer to layer: images, in tiles or in one; or rows of numbers.
struct Flow {
  std::optional<nn::Tile> tile;
  at::Tensor values;
};

/// What a chain of images begins with, or ends with where these stay images.
struct Between {
  Tiling tiling;
  std::int64_t channels = 0;
  bool in_tiles = false;      ///< whole on every rank otherwise
  bool has_gradient = false;  ///< parameters come before
};

/// Input samples and output scores are whole and the same on all ranks of the layout. Parameters have the names that
/// the sequential Chain gives them. Between layers, values are gathered, cut or cut anew where the next layer needs it.
class ParallelChain final : public torch::nn::Module {
 public:
  /// A part of a network, from images to images, or to scores where the layers lead there.
  ParallelChain(const Between& input, std::vector<Layer> layers, std::int64_t classes, Layout layout,
                SplitChoices choices);
  Flow pass(Flow flow);
  Between output() const;  ///< of one that ends with images

  /// Throws Error{unsupported} or {invalid} with the layer's name, its width and the mesh.
  ParallelChain(const SampleShape& input, std::vector<Layer> layers, std::int64_t classes, Layout layout,
                SplitChoices choices);

  at::Tensor forward(const at::Tensor& batch);
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

 private:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  /// What works on parts as on the whole; empty for any other layer.
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

  // What lies between layers. The cost is that of the layer to come.
  void place_images(const std::string& name, const Layer& layer);
  void into_tiles();
  void bring_together();
  void need_rows();  // whole ones
  LayerCost& begin(const std::string& name, Split split);
  void end(LayerCost& cost);
  /// Of a layer that slides windows over images, before its width is set; images have its outputs' tiling from here on.
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
  std::optional<nn::Tile> shape_;  // of images, without values
  std::int64_t width_ = 0;         // channels, or numbers of a row
  bool in_tiles_ = false, prefers_tiles_ = true;
  bool is_flat_ = false;       // rows of numbers; in tiles still, where shape_ is there
  std::optional<Cut> parts_;   // of rows in parts
  bool has_gradient_ = false;  // what goes in has one
  bool has_image_layer_ = false;
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
  std::vector<LayerCost> costs_;
  std::int64_t between_forward_ = 0, between_backward_ = 0;
  std::vector<std::function<Flow(Flow)>> steps_;
};

}  // namespace tutti::engine
