// Partitions of arrays among ranks: intervals, boxes and tilings. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// The positions [begin, end) along one dimension; empty if end <= begin.
struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const noexcept { return std::max<std::int64_t>(end - begin, 0); }
  bool empty() const noexcept { return end <= begin; }
  bool operator==(const Interval&) const = default;
};

/// The intersection; {0, 0} if it is empty.
Interval common(Interval a, Interval b) noexcept;

/// A part of an array: one interval per dimension.
using Box = std::vector<Interval>;

Box common(const Box& a, const Box& b);
std::int64_t volume(const Box& box) noexcept;  ///< number of elements; 1 for a box without dimensions
std::string to_string(const Box& box);         ///< "[0,4)x[2,7)"

/// A partition of one dimension: part j is [bounds[j], bounds[j + 1]).
class Cut {
 public:
  /// Throws Error{invalid} unless `bounds` starts with 0, does not decrease and has at least two entries.
  explicit Cut(std::vector<std::int64_t> bounds);
  /// Parts of nearly equal size, in multiples of `unit`: the first (extent / unit mod parts) parts have one unit more.
  /// Throws Error{invalid} if `unit` does not divide `extent`.
  static Cut even(std::int64_t extent, int parts, std::int64_t unit = 1);
  /// Parts of the given sizes.
  static Cut of_sizes(std::span<const std::int64_t> sizes);

  int parts() const noexcept { return static_cast<int>(bounds_.size()) - 1; }
  std::int64_t extent() const noexcept { return bounds_.back(); }
  Interval operator[](int part) const {
    return {bounds_.at(static_cast<std::size_t>(part)), bounds_.at(static_cast<std::size_t>(part) + 1)};
  }
  Interval whole() const noexcept { return {0, extent()}; }
  bool operator==(const Cut&) const = default;

 private:
  std::vector<std::int64_t> bounds_;
};

/// A partition of an array along each dimension: a grid of boxes, numbered in row-major order (last dimension
/// innermost).
class Tiling {
 public:
  explicit Tiling(std::vector<Cut> cuts) : cuts_(std::move(cuts)) {}
  /// Even cuts along each dimension. Throws Error{invalid} if the lists differ in length.
  static Tiling even(std::span<const std::int64_t> extents, std::span<const int> grid);

  std::size_t dimensions() const noexcept { return cuts_.size(); }
  const Cut& operator[](std::size_t dimension) const { return cuts_.at(dimension); }
  int parts() const noexcept;
  std::vector<int> grid() const;
  std::vector<std::int64_t> extents() const;
  std::vector<int> place(int part) const;  ///< the part's index along each dimension
  Box box(int part) const;
  std::vector<Box> boxes() const;  ///< the boxes of all parts, in order
  Box whole() const;
  bool operator==(const Tiling&) const = default;

 private:
  std::vector<Cut> cuts_;
};

/// A window that slides along one dimension. Output o reads the positions o * stride - low + k * dilation for k from 0
/// to size - 1; positions outside the input are padding.
///
/// In a transposed window inputs and outputs are exchanged: input i contributes to the outputs i * stride - low + k *
/// dilation.
struct Window {
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t low = 0, high = 0;  ///< padding before the first and after the last position
  bool ceil = false;               ///< as ceil_mode in PyTorch: the last window may extend beyond the padding
  bool transposed = false;
  std::int64_t extra = 0;  ///< as output_padding in PyTorch: additional outputs of a transposed window

  std::int64_t reach() const noexcept { return (size - 1) * dilation + 1; }  ///< extent of the window in positions
  /// The number of outputs for an input of `extent` positions; 0 if the window does not fit.
  std::int64_t outputs(std::int64_t extent) const noexcept;
  /// The positions that these outputs read, padding included. May start below 0 and end beyond the input. Empty if
  /// `outputs` is empty.
  Interval reads(Interval outputs) const noexcept;
};

/// The outputs, among `outputs`, that read only positions in `tile` and padding. Not for transposed windows.
Interval inner(const Window& window, Interval outputs, Interval tile, std::int64_t extent) noexcept;

/// The number of positions that a read extends beyond a tile on each side; negative if it ends inside the tile.
struct Halo {
  std::int64_t low = 0, high = 0;
  bool operator==(const Halo&) const = default;
};

/// The halo of part `part` if inputs and outputs are both partitioned evenly into `parts`; padding not included.
Halo halo(const Window& window, std::int64_t extent, int parts, int part);

}  // namespace tutti
