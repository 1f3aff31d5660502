// What else pictures in tiles go through: filters of each position's own, local contrast, batch normalisation, and the
// layer from tiles to a head.
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

/// A convolution whose weights are not shared between positions: `weight` is (positions..., out, in, kernel...) in all,
/// and each rank has those of its outputs. Weights send nothing in either direction, inputs an exchange of boxes each
/// way.
class SpaceLocalFilterImpl : public ParallelModule {
 public:
  /// For pictures of `extents`, cut evenly.
  SpaceLocalFilterImpl(std::int64_t in, std::int64_t out, std::span<const std::int64_t> extents, Space space,
                       LocalFilterOptions options);
  Tile forward(const Tile& input);
  /// The other way with the same weights: from outputs to the pictures that they are of, (samples, in, positions...).
  /// What tiles have in common is added up. Of a tied autoencoder the decoder.
  Tile backwards(const Tile& output);
  /// Makes every filter's length 1: after an update.
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
  std::int64_t size = 9;  ///< of the window, in every dimension
  double sigma = 0;       ///< of the Gaussian in positions; 0: a quarter of the size
  std::string name = "local contrast";
};

/// Local contrast normalisation. With G a Gaussian window of sum 1 over all channels together: y = x - G x, and the
/// output is y / sqrt(G y^2), where a root of 0, or of rounding alone, counts as 1. Beyond the pictures are zeros. Of
/// even sizes the larger half is before the position. Two exchanges of boxes forward and two backward. Jarrett et al.,
/// "What is the best multi-stage architecture for object recognition?", ICCV 2009.
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

/// BatchNorm over the positions of all tiles, and over the samples of further ranks (SyncBatchNorm). The gradients of
/// weight and bias are those of the whole pictures.
class SpaceBatchNormImpl : public ParallelModule {
 public:
  /// `together`: the ranks whose values count as one batch, as mesh["data,height,width"]; left out: those of the space.
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

/// A linear layer over all channels and positions of pictures in tiles: `weight` is (out, channels, positions...) in
/// all, those of Linear on flattened pictures, and each rank has the columns of its tile. The output, (samples, out),
/// is the same on every rank: one allreduce forward, nothing backward.
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

// neon's names.
SpaceLocalFilter LocalFilteringLayerDist(std::int64_t in, std::int64_t out, std::span<const std::int64_t> extents,
                                         Space space, LocalFilterOptions options);
SpaceLcn LCNLayerDist(Space space, LcnOptions options);

}  // namespace tutti::nn
