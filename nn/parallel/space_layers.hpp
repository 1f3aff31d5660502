// Further layers on images in tiles: locally connected filters, local contrast normalisation, batch normalisation, and
// a linear layer from tiles to a replicated output.
#pragma once

#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "nn/parallel/convolution.hpp"
#include "nn/sync_batch_norm.hpp"

namespace tutti::nn {

struct LocalFilterOptions {
  Sizes kernel = {1}, stride = {1}, padding = {0};
  std::optional<std::uint64_t> seed = {};
  std::string name = "local filter";
};

/// A locally connected layer: a convolution whose weights differ between positions. The whole `weight` is
/// (positions..., out, in, kernel...); each rank holds the weights of its outputs. The weights need no communication;
/// the input has one halo exchange in forward and one in backward.
class SpaceLocalFilterImpl : public ParallelModule {
 public:
  /// For images with sizes `extents`, in an even tiling.
  SpaceLocalFilterImpl(std::int64_t in, std::int64_t out, std::span<const std::int64_t> extents, Space space,
                       LocalFilterOptions options);
  Tile forward(const Tile& input);
  /// The transposed layer with the same weights: from outputs to images (samples, in, positions...), the decoder of a
  /// tied autoencoder. Contributions of several tiles to a position are summed.
  Tile backwards(const Tile& output);
  /// Scales every filter to length 1; call it after an update.
  void normalise_filters();

  at::Tensor weight;

 private:
  at::Tensor filters() const;  // (positions, out, in * kernel)

  Space space_;
  LocalFilterOptions options_;
  std::vector<Window> windows_;
  Tiling input_, output_;
};
TORCH_MODULE(SpaceLocalFilter);

struct LcnOptions {
  std::int64_t size = 9;  ///< size of the window in each dimension
  double sigma = 0;       ///< width of the Gaussian in positions; 0: a quarter of `size`
  std::string name = "local contrast";
};

/// Local contrast normalisation. With G a Gaussian window over all channels, normalised to sum 1: y = x - G x, and the
/// output is y / sqrt(G y^2), where a square root that is 0 or within rounding of it is replaced by 1. Positions
/// outside the images are zero. An even window has its larger half before the position. Two halo exchanges in forward,
/// two in backward. Jarrett et al., "What is the best multi-stage architecture for object recognition?", ICCV 2009.
class SpaceLcnImpl : public torch::nn::Module {
 public:
  SpaceLcnImpl(Space space, LcnOptions options);
  Tile forward(const Tile& input);

 private:
  at::Tensor blurred(const Tile& input) const;

  Space space_;
  LcnOptions options_;
  std::vector<Window> windows_;
};
TORCH_MODULE(SpaceLcn);

/// BatchNorm over the positions of all tiles, and optionally over the samples of more ranks (SyncBatchNorm). The
/// gradients of weight and bias are those of the whole images.
class SpaceBatchNormImpl : public ParallelModule {
 public:
  /// `together`: the ranks that normalise as one batch, for example mesh["data,height,width"]; by default those of
  /// `space`.
  SpaceBatchNormImpl(std::int64_t channels, Space space, std::optional<Communicator> together = {}, double eps = 1e-5,
                     double momentum = 0.1);
  Tile forward(const Tile& input);

  SyncBatchNorm norm{nullptr};
  at::Tensor weight, bias;

 private:
  Space space_;
};
TORCH_MODULE(SpaceBatchNorm);

struct SpaceHeadOptions {
  bool bias = true;
  std::optional<std::uint64_t> seed = {};
  std::string name = "head";
};

/// A linear layer over all channels and positions of images in tiles. The whole `weight` is (out, channels,
/// positions...), that of a Linear on flattened images; each rank holds the columns of its tile. The output (samples,
/// out) is replicated: one allreduce in forward, none in backward.
class SpaceHeadImpl : public ParallelModule {
 public:
  SpaceHeadImpl(std::int64_t channels, const Tiling& tiling, std::int64_t out, Space space,
                SpaceHeadOptions options = {});
  at::Tensor forward(const Tile& input);

  at::Tensor weight, bias;

 private:
  Space space_;
  Tiling tiling_;
  SpaceHeadOptions options_;
};
TORCH_MODULE(SpaceHead);

// The names that neon uses.
SpaceLocalFilter LocalFilteringLayerDist(std::int64_t in, std::int64_t out, std::span<const std::int64_t> extents,
                                         Space space, LocalFilterOptions options);
SpaceLcn LCNLayerDist(Space space, LcnOptions options);

}  // namespace tutti::nn
