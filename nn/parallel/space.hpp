// Pictures in tiles: which rank has which part of the height, width and depth, and how ranks get what lies beyond.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/mesh/window.hpp"
#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// This rank's part of pictures: (samples, channels, positions...), all samples and channels of its box.
struct Tile {
  at::Tensor values;
  Tiling tiling;  ///< of the whole positions, even or not
};

/// The positions that the outputs read, those of the padding among them.
Box reads_of(const Box& outputs, std::span<const Window> windows);
/// As at::constant_pad_nd takes it, what lies of `reads` around `inside`, all of it where that is empty: low and high
/// for each dimension, the last one first.
std::vector<std::int64_t> pads_around(const Box& inside, const Box& reads);

/// The ranks that have one picture together, as a grid. A value: copies talk through the same group.
class Space {
 public:
  /// The axes width; height and width; or depth, height and width of a mesh, for 1 to 3 dimensions. An axis that the
  /// mesh lacks has one rank. Collective among the ranks of these axes.
  Space(const Mesh& mesh, int dimensions);
  /// The ranks of a group row by row, the last dimension the innermost. Throws Error{invalid} where these are not as
  /// many.
  Space(Group group, std::vector<int> grid);

  std::size_t dimensions() const noexcept { return grid_.size(); }
  const std::vector<int>& grid() const noexcept { return grid_; }
  const Group& group() const noexcept { return group_; }

  Tiling even(std::span<const std::int64_t> extents) const { return Tiling::even(extents, grid_); }
  std::vector<Box> boxes(const Tiling& tiling) const;  ///< by rank of the group
  Box box(const Tiling& tiling) const;                 ///< this rank's

  /// This rank's tile of pictures that all ranks have; their gradients come together again.
  Tile cut(const at::Tensor& whole) const { return cut(whole, even(whole.sizes().slice(2))); }
  Tile cut(const at::Tensor& whole, const Tiling& tiling) const;
  /// The whole pictures on every rank, for layers that do the same on all of them: the gradient is each rank's part.
  at::Tensor whole(const Tile& tile) const;
  /// The same pictures in other tiles.
  Tile recut(const Tile& tile, const Tiling& tiling) const;

  /// The positions that this rank's outputs read, from all ranks that have them, with `padding` where there are none: a
  /// window without padding slides over it to give this rank's part of `outputs`. Collective; its gradient is the
  /// adjoint, which adds up where a position is at home. `name` is for errors.
  at::Tensor read(const Tile& tile, std::span<const Window> windows, const Tiling& outputs, double padding = 0) const;
  /// Without padding: the positions of the pictures alone. Where they lie is common(reads, whole).
  at::Tensor read_inside(const Tile& tile, std::span<const Window> windows, const Tiling& outputs) const;

  /// How outputs are cut: evenly, or, where there are as many as positions, as these are. Throws Error{invalid} with
  /// the layer's name where a window does not fit.
  Tiling outputs(const Tile& tile, std::span<const Window> windows, const std::string& layer) const;
  /// Bytes that this rank sends forward, and as many backward, for `outer` arrays (samples times channels) of `width`
  /// bytes an element. Local: for plans before a run.
  std::int64_t bytes(const Tiling& tiling, std::span<const Window> windows, std::int64_t outer,
                     std::int64_t width) const;

  /// Who sends what for read(). Local.
  BoxPlan plan(const Tiling& tiling, std::span<const Window> windows, const Tiling& outputs) const;

 private:
  Group group_;
  std::vector<int> grid_;
  std::vector<int> part_;  // by rank of the group: its number in a tiling
};

/// Space::read_inside() in two halves. What is computed in between, of the tile that it gives, goes on while boxes
/// travel, forward and backward. Differentiable once.
class SplitRead {
 public:
  /// What the halves share.
  struct Passage : torch::CustomClassHolder {
    BoxPlan plan;
    Group group;
    ProcessGroup::Pending there, back;
    at::Tensor gradient;  ///< of the chunk, on its way back
  };
  SplitRead(const Space& space, const Tile& tile, std::span<const Window> windows, const Tiling& outputs);
  const at::Tensor& tile() const noexcept { return tile_; }
  at::Tensor finish();  ///< once

 private:
  c10::intrusive_ptr<Passage> passage_;
  at::Tensor tile_;
};

/// Boxes from whoever has them, and for autograd its adjoint; twice differentiable. All ranks call alike.
at::Tensor exchange(const at::Tensor& tile, const BoxPlan& plan, const Group& group);

}  // namespace tutti::nn
