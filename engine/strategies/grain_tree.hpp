// The canonical tree: the order in which sums of grains (parts of a step) are added on any number of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti::engine {

/// Adds the sum that begins at grain `right` to the sum that begins at grain `left`. The result covers [left, last].
struct Addition {
  std::size_t left = 0, right = 0, last = 0;
  bool operator==(const Addition&) const = default;
};

/// Returns the additions of a binary tree over `grains` leaves (a power of two) in postorder. A node adds its right
/// half to its left half. Only the first `present` grains have values; nodes without values in the right half are
/// omitted. So there are present - 1 additions, and grain 0 ends up with the total.
std::vector<Addition> grain_tree(std::size_t grains, std::size_t present);

/// Returns the sum of the first `present` values, added in the tree's order.
double tree_sum(std::span<const double> values, std::size_t present);

}  // namespace tutti::engine
