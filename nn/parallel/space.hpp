// Images distributed in tiles: which rank holds which part of height, width and depth, and halo exchanges between
// tiles.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/parallel/process_group.hpp"
#include "tutti/cut.hpp"

namespace tutti::nn {

/// This rank's tile of a batch of images: (samples, channels, positions...), with all samples and channels.
struct Tile {
  at::Tensor values;
  Tiling tiling;  ///< the partition of the whole images; tiles may have different sizes
};

/// The box of input positions that these outputs read, padding included.
Box reads_of(const Box& outputs, std::span<const Window> windows);
/// The padding that extends the box `inside` to `reads`, as at::constant_pad_nd takes it: low and high per dimension,
/// the last dimension first. If `inside` is empty, all of `reads` is padding.
std::vector<std::int64_t> pads_around(const Box& inside, const Box& reads);

/// The grid of ranks that hold one image together. Copies share the group.
class Space {
 public:
  /// The axes (width), (height, width) or (depth, height, width) of a mesh, for 1 to 3 dimensions. An axis that the
  /// mesh lacks has one rank. Collective over the ranks of these axes.
  Space(const Mesh& mesh, int dimensions);
  /// The ranks of `group` in row-major order (last dimension innermost). Throws Error{invalid} if the grid has another
  /// number of ranks.
  Space(Group group, std::vector<int> grid);

  std::size_t dimensions() const noexcept { return grid_.size(); }
  const std::vector<int>& grid() const noexcept { return grid_; }
  const Group& group() const noexcept { return group_; }

  Tiling even(std::span<const std::int64_t> extents) const { return Tiling::even(extents, grid_); }
  std::vector<Box> boxes(const Tiling& tiling) const;  ///< the box of each rank of the group
  Box box(const Tiling& tiling) const;                 ///< the box of this rank

  /// This rank's tile of images that are replicated on all ranks. Backward allgathers the gradient.
  Tile cut(const at::Tensor& whole) const { return cut(whole, even(whole.sizes().slice(2))); }
  Tile cut(const at::Tensor& whole, const Tiling& tiling) const;
  /// The whole images on every rank (an allgather), for layers that all ranks compute identically. Backward takes this
  /// rank's part of the gradient.
  at::Tensor whole(const Tile& tile) const;
  /// The same images with another tiling.
  Tile recut(const Tile& tile, const Tiling& tiling) const;

  /// The input positions that this rank's part of `outputs` reads, fetched from all ranks that hold them; positions
  /// outside the images have the value `padding`. Applying the windows without padding to the result gives the outputs.
  /// Backward is the adjoint exchange, which adds up gradients on the rank that holds a position. Collective.
  at::Tensor read(const Tile& tile, std::span<const Window> windows, const Tiling& outputs, double padding = 0) const;
  /// The same without padding: only positions in the images, which are common(reads, whole).
  at::Tensor read_inside(const Tile& tile, std::span<const Window> windows, const Tiling& outputs) const;

  /// The tiling of the outputs. Along a dimension with as many outputs as input positions it equals the input's tiling;
  /// along others it is even. Throws Error{invalid} with the name of the layer if a window does not fit.
  Tiling outputs(const Tile& tile, std::span<const Window> windows, const std::string& layer) const;
  /// Bytes that this rank sends in forward (and again in backward), for `outer` arrays (samples times channels) with
  /// elements of `width` bytes. Local; for estimates before a run.
  std::int64_t bytes(const Tiling& tiling, std::span<const Window> windows, std::int64_t outer,
                     std::int64_t width) const;

  /// The box exchange of read(). Local.
  BoxPlan plan(const Tiling& tiling, std::span<const Window> windows, const Tiling& outputs) const;

 private:
  Group group_;
  std::vector<int> grid_;
  std::vector<int> part_;  // for each rank of the group, the number of its part in a tiling
};

/// Space::read_inside() in two steps: the constructor starts the exchange, finish() completes it. Computations on
/// tile() between the two overlap the exchange, in forward and backward. Differentiable once.
class SplitRead {
 public:
  /// The state that both steps share.
  struct Passage : torch::CustomClassHolder {
    BoxPlan plan;
    Group group;
    ProcessGroup::Pending there, back;
    at::Tensor gradient;  ///< of the chunk, while the adjoint exchange is in flight
  };
  SplitRead(const Space& space, const Tile& tile, std::span<const Window> windows, const Tiling& outputs);
  const at::Tensor& tile() const noexcept { return tile_; }
  at::Tensor finish();  ///< may be called once

 private:
  c10::intrusive_ptr<Passage> passage_;
  at::Tensor tile_;
};

/// The box exchange of a plan, with the adjoint exchange as its gradient. Twice differentiable. Collective.
at::Tensor exchange(const at::Tensor& tile, const BoxPlan& plan, const Group& group);

}  // namespace tutti::nn
