// Convolutions and pools over pictures in tiles, equal to those over whole pictures.
#pragma once

#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/parallel/module.hpp"
#include "nn/parallel/space.hpp"

namespace tutti::nn {

/// A number for each dimension, or one for all of them.
using Sizes = std::vector<std::int64_t>;

struct SpaceConvOptions {
  Sizes kernel = {1}, stride = {1}, padding = {0}, dilation = {1};
  std::int64_t groups = 1;
  bool bias = true;
  bool transposed = false;
  Sizes output_padding = {0};  ///< of transposed ones
  /// Outputs that read this rank's tile alone are computed while boxes travel; then differentiable once. It takes
  /// copies of the tile and of the outputs, which cost more than halos do over shared memory: for slow links. Not of
  /// transposed ones.
  bool overlap = false;
  std::optional<std::uint64_t> seed = {};
  std::string name = "convolution";  ///< for errors
};

/// Convolution of 1 to 3 dimensions with LibTorch's weights, a replica on every rank. Every rank computes an even share
/// of the outputs and reads what these need: one exchange of boxes forward and its adjoint backward, and an allreduce
/// of the gradients of weight and bias, which are those of the whole pictures. Any size, stride, padding and dilation,
/// halos wider than a tile, and tiles without any output.
class SpaceConvImpl : public ParallelModule {
 public:
  SpaceConvImpl(std::int64_t in, std::int64_t out, Space space, SpaceConvOptions options);
  Tile forward(const Tile& input);
  const std::vector<Window>& windows() const noexcept { return windows_; }

  at::Tensor weight, bias;

 private:
  at::Tensor convolve(const at::Tensor& chunk, const at::Tensor& kernel) const;
  /// The outputs in a box of what `values` has in the box `there`, both in positions of the whole.
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
  Sizes stride = {};  ///< none: the kernel's
  Sizes padding = {0};
  Sizes dilation = {1};           ///< max alone
  bool ceil = false;              ///< as LibTorch's ceil_mode
  bool count_include_pad = true;  ///< average alone
  std::string name = "pool";
};

enum class Pool {
  max,      ///< of equal values the first in the order of rows gets the gradient, as in one place
  average,  ///< divided by the window's positions
  l2,       ///< the root of the sum of squares; where that is 0, so is the gradient
};

/// Pools of 1 to 3 dimensions: an exchange of boxes forward and its adjoint backward.
class SpacePoolImpl : public torch::nn::Module {
 public:
  SpacePoolImpl(Pool kind, Space space, SpacePoolOptions options);
  Tile forward(const Tile& input);
  const std::vector<Window>& windows() const noexcept { return windows_; }

 private:
  at::Tensor shares(const Tile& input, const Box& outputs) const;  // of the sum of a whole window

  Pool kind_;
  Space space_;
  SpacePoolOptions options_;
  std::vector<Window> windows_;
};
TORCH_MODULE(SpacePool);

/// The root, with a gradient of 0 at 0.
at::Tensor safe_sqrt(const at::Tensor& values);

// neon's names.
SpaceConv ConvLayerDist(std::int64_t in, std::int64_t out, Space space, SpaceConvOptions options);
SpacePool MaxPoolingLayerDist(Space space, SpacePoolOptions options);
SpacePool AveragePoolingLayerDist(Space space, SpacePoolOptions options);
SpacePool L2PoolingLayerDist(Space space, SpacePoolOptions options);

}  // namespace tutti::nn
