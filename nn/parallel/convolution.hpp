// Convolution and pooling of images that are distributed in tiles (spatial parallelism). Results equal those on whole
// images.
#pragma once

#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/parallel/module.hpp"
#include "nn/parallel/space.hpp"

namespace tutti::nn {

/// One number per dimension, or a single number for all dimensions.
using Sizes = std::vector<std::int64_t>;

struct SpaceConvOptions {
  Sizes kernel = {1}, stride = {1}, padding = {0}, dilation = {1};
  std::int64_t groups = 1;
  bool bias = true;
  bool transposed = false;
  Sizes output_padding = {0};  ///< for transposed convolutions
  /// Computes the outputs that read only this rank's tile while the halos are exchanged. This needs a copy of the tile
  /// and of the outputs, which costs more than a halo exchange over shared memory: use it on slow networks only.
  /// Differentiable once. Ignored for transposed convolutions.
  bool overlap = false;
  std::optional<std::uint64_t> seed = {};
  std::string name = "convolution";  ///< for error messages
};

/// Convolution with 1 to 3 dimensions. The weights have the shapes of LibTorch's and are replicated on every rank. Each
/// rank computes its part of the outputs (Space::outputs()). One halo exchange in forward, its adjoint in backward, and
/// an allreduce of the gradients of weight and bias, which are those of the whole images. Supports any kernel size,
/// stride, padding and dilation, halos wider than a tile, and ranks without outputs.
class SpaceConvImpl : public ParallelModule {
 public:
  SpaceConvImpl(std::int64_t in, std::int64_t out, Space space, SpaceConvOptions options);
  Tile forward(const Tile& input);
  const std::vector<Window>& windows() const noexcept { return windows_; }

  at::Tensor weight, bias;

 private:
  at::Tensor convolve(const at::Tensor& chunk, const at::Tensor& kernel) const;
  /// The outputs in box `outputs`, computed from `values`, which holds the box `there` of the input. Boxes are in
  /// positions of the whole image.
  at::Tensor outputs_of(const at::Tensor& values, const Box& there, const Box& outputs, const Tiling& tiling,
                        const at::Tensor& kernel) const;
  at::Tensor overlapped(const Tile& input, const Tiling& outputs, const Box& inner, const at::Tensor& kernel) const;
  at::Tensor spread(const at::Tensor& chunk, const at::Tensor& kernel, const Box& inside, const Box& outputs) const;

  Space space_;
  SpaceConvOptions options_;
  std::vector<Window> windows_;
};
TORCH_MODULE(SpaceConv);

struct SpacePoolOptions {
  Sizes kernel = {2};
  Sizes stride = {};  ///< empty: as kernel
  Sizes padding = {0};
  Sizes dilation = {1};           ///< for max only
  bool ceil = false;              ///< as ceil_mode of LibTorch
  bool count_include_pad = true;  ///< for average only
  std::string name = "pool";
};

enum class Pool {
  max,      ///< the first maximum in row-major order gets the gradient, as on whole images
  average,  ///< divided by the number of positions in the window
  l2,       ///< square root of the sum of squares; the gradient is 0 where the sum is 0
};

/// Pooling with 1 to 3 dimensions: one halo exchange in forward and its adjoint in backward.
class SpacePoolImpl : public torch::nn::Module {
 public:
  SpacePoolImpl(Pool kind, Space space, SpacePoolOptions options);
  Tile forward(const Tile& input);
  const std::vector<Window>& windows() const noexcept { return windows_; }

 private:
  at::Tensor shares(const Tile& input, const Box& outputs) const;  // per output, 1 / the number of positions that count

  Pool kind_;
  Space space_;
  SpacePoolOptions options_;
  std::vector<Window> windows_;
};
TORCH_MODULE(SpacePool);

/// Square root with a gradient of 0 at 0.
at::Tensor safe_sqrt(const at::Tensor& values);

// The names that neon uses.
SpaceConv ConvLayerDist(std::int64_t in, std::int64_t out, Space space, SpaceConvOptions options);
SpacePool MaxPoolingLayerDist(Space space, SpacePoolOptions options);
SpacePool AveragePoolingLayerDist(Space space, SpacePoolOptions options);
SpacePool L2PoolingLayerDist(Space space, SpacePoolOptions options);

}  // namespace tutti::nn
