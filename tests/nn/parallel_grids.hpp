// Grids of ranks for tests of layers over pictures in tiles.
#pragma once

#include <functional>
#include <vector>

#include "nn/parallel/space.hpp"
#include "tests/nn/parallel_ranks.hpp"

namespace tutti::nn {

inline const std::vector<std::vector<int>> grids{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 3}, {3, 3}};

inline int ranks_of(const std::vector<int>& grid) { return c10::multiply_integers(grid); }

inline void on_grid(const std::vector<int>& grid, const std::function<void(const Space&)>& body) {
  run_inproc(ranks_of(grid), [&](Communicator& world) { body(Space(group_of(world), grid)); });
}

inline at::Tensor part_of(const at::Tensor& whole, const Space& space, const Tiling& tiling) {
  return slice(whole, tiling.whole(), space.box(tiling)).contiguous();
}

inline Tile tile_of(const at::Tensor& whole, const Space& space) {
  Tile tile = space.cut(whole.detach());
  tile.values = tile.values.clone().requires_grad_();
  return tile;
}

}  // namespace tutti::nn
