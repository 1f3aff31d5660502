// Chain: a sequence of layers as a module.
#pragma once

#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/models/layers.hpp"

namespace tutti::engine {

/// Submodules are named conv1, conv2, norm1, fc1 ... in the order of the layers, and initialised in that order.
class Chain final : public torch::nn::Module {
 public:
  /// `input` is the shape of one sample. Throws Error{invalid} if a layer does not fit the output of the one before it.
  Chain(SampleShape input, const std::vector<Layer>& layers, std::int64_t classes);

  at::Tensor forward(const at::Tensor& batch);
  const SampleShape& shape() const noexcept { return shape_; }  ///< of the output

 private:
  using Run = std::function<at::Tensor(const at::Tensor&)>;
  /// Padding before and after, and the number of outputs, along rows or columns.
  struct Reach {
    std::int64_t before = 0, after = 0, out = 0;
  };

  /// Throws Error{invalid} with the layer's place if its output for one sample does not fit into memory.
  void add(const Layer& layer, std::int64_t classes);
  void add_steps(const Layer& layer, std::int64_t classes);
  void add_conv(const Layer& layer);
  void add_linear(const Layer& layer, std::int64_t classes);
  void add_batchnorm(const Layer& layer);
  void add_pool(const Layer& layer);
  void add_gridpool(const Layer& layer);
  void add_function(const Layer& layer);
  /// Sets the rows and columns of the shape. Returns the padding for the layer if it is the same before and after.
  /// Otherwise adds a separate padding step, which pads with `filler`, and returns 0.
  std::array<std::int64_t, 2> slide(const Layer& layer, double filler);
  Reach reach(const Layer& layer, std::size_t side) const;
  void need_image(const Layer& layer) const;
  std::string next_name(const std::string& kind) const;

  SampleShape shape_;
  std::vector<Run> steps_;
};

/// Makers of layers, for the models of the table.
Layer conv_layer(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1, std::int64_t padding = 0,
                 bool bias = true);
Layer linear_layer(std::int64_t units);  ///< 0: one unit per class
Layer pool_layer(Layer::Kind kind, std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0,
                 bool ceil = false);
Layer grid_layer(std::int64_t side);
Layer dropout_layer(double rate);
Layer norm_layer(double eps = 1e-5);
Layer plain_layer(Layer::Kind kind);

/// The divisor of the variance of a convolution's initial weights: its fan-in or its fan-out.
enum class Fan : std::uint8_t { in, out };

/// Initialises convolutions with He's normal initialisation (He et al. 2015), biases with 0.
void initialise_convolutions(torch::nn::Module& module, Fan fan = Fan::out);
/// Initialises as Keras does by default: Glorot's uniform initialisation (Glorot and Bengio 2010), biases 0.
void initialise_as_keras(torch::nn::Module& module);

}  // namespace tutti::engine
