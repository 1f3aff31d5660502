// The canonical tree: in which order the sums of grains are added up, so that no bit depends on who adds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti::engine {

/// The sum of the grains from `right` on is added to that of the grains from `left` on, which then is of the grains
/// [left, last].
struct Addition {
  std::size_t left = 0, right = 0, last = 0;
  bool operator==(const Addition&) const = default;
};

/// The binary tree over `grains` leaves, a power of two: a node adds its right half to its left one, and comes after
/// both. Only the first `present` grains have something to add; where a right half has none, the left one is the node.
/// At the end the sum of all is that from grain 0 on. present - 1 additions.
std::vector<Addition> grain_tree(std::size_t grains, std::size_t present);

/// The sum of the first `present` values, in the tree's order.
double tree_sum(std::span<const double> values, std::size_t present);

}  // namespace tutti::engine
