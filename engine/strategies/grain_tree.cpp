#include "engine/strategies/grain_tree.hpp"

#include <algorithm>

namespace tutti::engine {
namespace {

void add(std::vector<Addition>& tree, std::size_t begin, std::size_t grains, std::size_t present) {
  if (grains == 1 || begin >= present) return;
  const std::size_t half = begin + grains / 2;
  add(tree, begin, grains / 2, present);
  add(tree, half, grains / 2, present);
  if (half < present) tree.push_back({begin, half, std::min(begin + grains, present) - 1});
}

}  // namespace

std::vector<Addition> grain_tree(std::size_t grains, std::size_t present) {
  std::vector<Addition> tree;
  add(tree, 0, grains, present);
  return tree;
}

double tree_sum(std::span<const double> values, std::size_t present) {
  std::vector<double> sums(values.begin(), values.end());
  for (const Addition& each : grain_tree(values.size(), present)) sums[each.left] += sums[each.right];
  return sums[0];
}

}  // namespace tutti::engine
