// Cuts of arrays among ranks: intervals, boxes, and who has which. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Positions [begin, end) along one dimension; empty where end <= begin.
struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const noexcept { return std::max<std::int64_t>(end - begin, 0); }
  bool empty() const noexcept { return end <= begin; }
  bool operator==(const Interval&) const = default;
};

/// What both have; {0, 0} where that is nothing.
Interval common(Interval a, Interval b) noexcept;

/// A part of an array: an interval for each dimension.
using Box = std::vector<Interval>;

Box common(const Box& a, const Box& b);
std::int64_t volume(const Box& box) noexcept;  ///< elements; 1 of no dimensions
std::string to_string(const Box& box);         ///< "[0,4)x[2,7)"

/// One dimension cut among ranks: rank j has [bounds[j], bounds[j + 1]).
class Cut {
 public:
  /// Throws Error{invalid} unless bounds begin with 0 and do not decrease.
  explicit Cut(std::vector<std::int64_t> bounds);
  /// The first (extent mod parts) ranks have one `unit` more than the others. `extent` is in elements, and a multiple
  /// of `unit`, inside which nothing is cut.
  static Cut even(std::int64_t extent, int parts, std::int64_t unit = 1);
  /// From the sizes of the ranks' parts.
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

/// An array of several dimensions cut along each of them: part r of a grid whose last dimension is the innermost.
class Tiling {
 public:
  explicit Tiling(std::vector<Cut> cuts) : cuts_(std::move(cuts)) {}
  /// Even cuts. Throws Error{invalid} where the lists differ in length.
  static Tiling even(std::span<const std::int64_t> extents, std::span<const int> grid);

  std::size_t dimensions() const noexcept { return cuts_.size(); }
  const Cut& operator[](std::size_t dimension) const { return cuts_.at(dimension); }
  int parts() const noexcept;
  std::vector<int> grid() const;
  std::vector<std::int64_t> extents() const;
  std::vector<int> place(int part) const;  ///< its number along each dimension
  Box box(int part) const;
  std::vector<Box> boxes() const;  ///< of all parts
  Box whole() const;
  bool operator==(const Tiling&) const = default;

 private:
  std::vector<Cut> cuts_;
};

}  // namespace tutti
