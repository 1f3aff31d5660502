// Layers over pictures in tiles, compared with the same layers on one rank. Ranks are threads. The table of
// convolutions and pools is in space_table_test.cpp, whole networks are in space_tower_test.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/utils.h>

#include "nn/parallel/space_layers.hpp"
#include "tests/nn/parallel_grids.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::refusal;

TEST(Halo, ChunksAreSlicesOfTheExtendedPicture) {
  const at::Tensor picture = wave({2, 3, 9, 7}, 1), extended = at::constant_pad_nd(picture, {9, 9, 9, 9});
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      const Tile tile = space.cut(picture);
      const std::vector<Window> windows{{.size = 3, .stride = 2, .dilation = 2, .low = 2, .high = 2},
                                        {.size = 5, .low = 2, .high = 2}};
      const Tiling outputs = space.outputs(tile, windows, "test");
      const at::Tensor chunk = space.read(tile, windows, outputs);
      const Box mine = space.box(outputs);
      const Interval rows = windows[0].reads(mine[0]), columns = windows[1].reads(mine[1]);
      EXPECT_TRUE(
          chunk.equal(extended.narrow(2, 9 + rows.begin, rows.size()).narrow(3, 9 + columns.begin, columns.size())));
      space.group()->reset_traffic();
      space.read(tile, windows, outputs);
      EXPECT_EQ(static_cast<std::int64_t>(space.group()->traffic(Kind::alltoall).bytes),
                space.bytes(tile.tiling, windows, 6, 8));
    });
}

TEST(Halo, TheGradientIsTheAdjoint) {
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      const std::vector<Window> windows(2, {.size = 7, .low = 3, .high = 3});  // wider than a tile
      const Tile tile = tile_of(wave({2, 2, 6, 8}, 1), space);
      const at::Tensor chunk = space.read_inside(tile, windows, tile.tiling);
      const at::Tensor y = wave(chunk.sizes(), 2 + space.group()->rank());
      chunk.backward(y);
      const auto dot = [&](const at::Tensor& a, const at::Tensor& b) {
        return space.group()->allreduce((a * b).sum().detach()).item<double>();
      };
      EXPECT_NEAR(dot(chunk, y), dot(tile.values, tile.values.grad()), 1e-11);
    });
}

TEST(Halo, WholeCutAndRecutAreTheirOwnConjugates) {
  const at::Tensor picture = wave({1, 2, 7, 5}, 1), gradient = wave({1, 2, 7, 5}, 2);
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      const at::Tensor x = picture.clone().requires_grad_();
      const Tile tile = space.cut(x);
      std::vector<Cut> cuts;  // the first tile of each dimension is the whole extent
      for (std::size_t d = 0; d < 2; ++d) {
        std::vector<std::int64_t> sizes(static_cast<std::size_t>(grid[d]), 0);
        sizes[0] = tile.tiling[d].extent();
        cuts.push_back(Cut::of_sizes(sizes));
      }
      const at::Tensor back = space.whole(space.recut(tile, Tiling(cuts)));
      EXPECT_TRUE(back.equal(picture));
      back.backward(gradient);
      EXPECT_TRUE(x.grad().equal(gradient));
    });
}

TEST(Halo, AxesOfAMeshInAnyOrder) {
  const at::Tensor picture = wave({1, 1, 6, 8}, 1);
  run_inproc(8, [&](Communicator& world) {
    const Mesh mesh(world, {{"width", 2}, {"data", 2}, {"height", 2}});
    const Space space(mesh, 2);
    EXPECT_EQ(space.box(space.even(std::vector<std::int64_t>{6, 8})),
              (Box{{3 * mesh.rank("height"), 3 * mesh.rank("height") + 3},
                   {4 * mesh.rank("width"), 4 * mesh.rank("width") + 4}}));
    EXPECT_TRUE(space.whole(space.cut(picture)).equal(picture));
    EXPECT_EQ(Space(mesh, 3).grid(), (std::vector<int>{1, 2, 2}));
    EXPECT_EQ(Space(mesh, 1).grid(), std::vector<int>{2});
  });
}

// An impulse at each position of a picture has the same result as on one rank, also at corners of tiles.
TEST(SpaceConv, ImpulsesCrossCorners) {
  const at::Tensor kernel = wave({1, 1, 3, 3}, 1);
  const at::Tensor impulses = at::eye(36, at::kDouble).view({36, 1, 6, 6});
  const at::Tensor wanted = at::conv2d(impulses, kernel, {}, 1, 1);
  for (const auto& grid : {std::vector{2, 2}, std::vector{3, 3}})
    on_grid(grid, [&](const Space& space) {
      SpaceConv conv(1, 1, space, SpaceConvOptions{.kernel = {3}, .padding = {1}, .bias = false});
      conv->to(at::kDouble);
      conv->load("weight", kernel);
      const Tile y = conv->forward(space.cut(impulses));
      EXPECT_EQ((y.values - part_of(wanted, space, y.tiling)).abs().max().item<double>(), 0);
    });
}

TEST(SpaceConv, StridesNeedNotDivideTiles) {
  const at::Tensor x = wave({1, 1, 14, 14}, 1), kernel = wave({1, 1, 3, 3}, 2);
  on_grid({2, 1}, [&](const Space& space) {
    SpaceConv conv(1, 1, space, SpaceConvOptions{.kernel = {3}, .stride = {2}, .bias = false});
    conv->to(at::kDouble);
    conv->load("weight", kernel);
    const Tile y = conv->forward(space.cut(x));
    expect_near(y.values, part_of(at::conv2d(x, kernel, {}, 2), space, y.tiling));
  });
}

TEST(SpaceConv, WeightsStayReplicas) {
  const at::Tensor x = wave({2, 2, 7, 9}, 1);
  const at::Tensor w = wave({3, 2, 3, 3}, 2).requires_grad_(), b = wave({3}, 3).requires_grad_();
  for (int step = 0; step < 10; ++step) {
    w.mutable_grad().reset(), b.mutable_grad().reset();
    at::conv2d(x, w, b, 1, 1).tanh().pow(2).sum().backward();
    const torch::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.01), b.sub_(b.grad(), 0.01);
  }
  on_grid({2, 2}, [&](const Space& space) {
    SpaceConv conv(2, 3, space, SpaceConvOptions{.kernel = {3}, .padding = {1}});
    conv->to(at::kDouble);
    conv->load("weight", wave({3, 2, 3, 3}, 2)), conv->load("bias", wave({3}, 3));
    for (int step = 0; step < 10; ++step) {
      conv->zero_grad();
      conv->forward(space.cut(x)).values.tanh().pow(2).sum().backward();
      const torch::NoGradGuard no_grad;
      conv->weight.sub_(conv->weight.grad(), 0.01), conv->bias.sub_(conv->bias.grad(), 0.01);
    }
    expect_near(conv->weight, w.detach(), 1e-11);
    expect_near(conv->bias, b.detach(), 1e-11);
    EXPECT_TRUE(space.group()->broadcast(conv->weight.detach()).equal(conv->weight));  // bitwise equal on all ranks
  });
}

TEST(SpaceConv, InitialWeightsDoNotDependOnTheRanks) {
  torch::manual_seed(5);
  const torch::nn::Conv2d sequential(torch::nn::Conv2dOptions(2, 4, 3));
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      SpaceConv conv(2, 4, space, SpaceConvOptions{.kernel = {3}, .seed = 5});
      EXPECT_TRUE(conv->weight.equal(sequential->weight) && conv->bias.equal(sequential->bias));
    });
}

TEST(SpacePool, TiesGoToTheFirstPosition) {
  const at::Tensor x = wave({2, 2, 9, 9}, 1).mul(4).round().requires_grad_();  // many equal values
  const at::Tensor wanted = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}), dy = wave(wanted.sizes(), 2);
  wanted.backward(dy);
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      const Tile tile = tile_of(x, space);
      SpacePool pool = MaxPoolingLayerDist(space, {.kernel = {3}, .stride = {2}, .padding = {1}});
      const Tile y = pool->forward(tile);
      EXPECT_TRUE(y.values.equal(part_of(wanted.detach(), space, y.tiling)));
      y.values.backward(part_of(dy, space, y.tiling));
      expect_near(tile.values.grad(), part_of(x.grad(), space, tile.tiling));
    });
}

TEST(SpacePool, L2OfNothingHasAGradientOfZero) {
  on_grid({2, 1}, [](const Space& space) {
    const Tile tile = tile_of(at::zeros({1, 1, 4, 4}, at::kDouble), space);
    const Tile y = L2PoolingLayerDist(space, {.kernel = {2}})->forward(tile);
    y.values.sum().backward();
    EXPECT_TRUE(tile.values.grad().equal(at::zeros_like(tile.values)));
  });
}

/// Filters that differ by position, on one rank; `w` has the shape (rows, columns, out, in, 3, 3).
at::Tensor filtered(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor seen = x.unfold(2, 3, 2).unfold(3, 3, 2);  // (n, in, rows, columns, 3, 3)
  return at::einsum("nchwij,hwocij->nohw", {seen, w});
}

TEST(SpaceLocalFilter, TrainsAsInOnePlaceAndSendsNoWeights) {
  const at::Tensor x = wave({3, 2, 9, 11}, 1);
  const at::Tensor w = wave({4, 5, 3, 2, 3, 3}, 2).requires_grad_();
  for (int step = 0; step < 10; ++step) {
    w.mutable_grad().reset();
    filtered(x, w).tanh().pow(2).sum().backward();
    const torch::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.05);
  }
  const std::vector<std::int64_t> extents{9, 11};
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      SpaceLocalFilter layer = LocalFilteringLayerDist(2, 3, extents, space, {.kernel = {3}, .stride = {2}});
      layer->to(at::kDouble);
      layer->load("weight", wave({4, 5, 3, 2, 3, 3}, 2));
      space.group()->reset_traffic();
      for (int step = 0; step < 10; ++step) {
        layer->zero_grad();
        layer->forward(space.cut(x)).values.tanh().pow(2).sum().backward();
        const torch::NoGradGuard no_grad;
        layer->weight.sub_(layer->weight.grad(), 0.05);
      }
      EXPECT_EQ(space.group()->traffic(), space.group()->traffic(Kind::alltoall));  // all traffic is halos of inputs
      EXPECT_EQ(space.group()->traffic().calls, space.group()->size() == 1 ? 0U : 10U);
      expect_near(layer->whole("weight"), w.detach(), 1e-11);
      EXPECT_LE(layer->weight.numel() * ranks_of(grid), w.numel() * 9 / 5);  // parts differ in size
      layer->normalise_filters();
      expect_near(layer->weight.pow(2).sum({3, 4, 5}).sqrt(),
                  at::ones({layer->weight.size(0), layer->weight.size(1), 3}, at::kDouble));
    });
}

TEST(SpaceLcn, EqualsOnePlace) {
  const auto kernel = [](std::int64_t size, std::int64_t channels) {
    const at::Tensor place = at::arange(size, at::kDouble) - static_cast<double>(size - 1) / 2;
    const at::Tensor line = (-place * place / (2 * 0.0625 * static_cast<double>(size * size))).exp();
    const at::Tensor window = at::outer(line, line);
    return (window / window.sum() / channels).expand({1, channels, size, size}).contiguous();
  };
  for (const std::int64_t size : {3, 4, 5}) {
    const at::Tensor x = wave({2, 3, 8, 9}, 1).requires_grad_(), dy = wave({2, 3, 8, 9}, 2);
    const std::int64_t after = (size - 1) / 2, before = size - 1 - after;
    const auto blur = [&](const at::Tensor& in) {
      return at::conv2d(at::constant_pad_nd(in, {before, after, before, after}), kernel(size, 3));
    };
    const at::Tensor y = x - blur(x), wanted = y / blur(y * y).sqrt();
    wanted.backward(dy);
    for (const auto& grid : grids)
      on_grid(grid, [&](const Space& space) {
        const Tile tile = tile_of(x, space);
        SpaceLcn layer = LCNLayerDist(space, {.size = size});
        space.group()->reset_traffic();
        const Tile out = layer->forward(tile);
        expect_near(out.values, part_of(wanted.detach(), space, tile.tiling), 1e-11);
        out.values.backward(part_of(dy, space, tile.tiling));
        expect_near(tile.values.grad(), part_of(x.grad(), space, tile.tiling), 1e-11);
        EXPECT_EQ(space.group()->traffic(Kind::alltoall).calls, space.group()->size() == 1 ? 0U : 4U);
        const Tile flat = layer->forward(tile_of(at::full({1, 1, 12, 12}, 0.3, at::kDouble), space));
        EXPECT_TRUE(flat.values.isfinite().all().item<bool>());
        expect_near(space.whole(flat).narrow(2, 4, 4).narrow(3, 4, 4), at::zeros({1, 1, 4, 4}, at::kDouble));
      });
  }
}

TEST(SpaceBatchNorm, EqualsOnePlace) {
  const at::Tensor x = wave({3, 2, 5, 7}, 1).mul(3).requires_grad_(), dy = wave({3, 2, 5, 7}, 2);
  torch::nn::BatchNorm2d norm(2);
  norm->to(at::kDouble);
  const at::Tensor wanted = norm->forward(x);
  wanted.backward(dy);
  for (const auto& grid : grids)
    on_grid(grid, [&](const Space& space) {
      SpaceBatchNorm layer(2, space);
      layer->to(at::kDouble);
      const Tile tile = tile_of(x, space);
      const Tile y = layer->forward(tile);
      expect_near(y.values, part_of(wanted.detach(), space, tile.tiling));
      y.values.backward(part_of(dy, space, tile.tiling));
      expect_near(tile.values.grad(), part_of(x.grad(), space, tile.tiling));
      expect_near(layer->weight.grad(), norm->weight.grad());
      expect_near(layer->bias.grad(), norm->bias.grad());
      expect_near(layer->norm->running_mean, norm->running_mean);
      expect_near(layer->norm->running_var, norm->running_var);
    });
}

TEST(SpaceLayers, NameWhatDoesNotFit) {
  on_grid({2, 1}, [](const Space& space) {
    const Tile tile = space.cut(at::ones({1, 1, 4, 4}));
    SpaceConv wide(1, 1, space, SpaceConvOptions{.kernel = {5}, .name = "low"});
    EXPECT_THAT(refusal([&] { wide->forward(tile); }),
                AllOf(HasSubstr("'low'"), HasSubstr("window of 5"), HasSubstr("4 positions")));
    EXPECT_THAT(refusal([&] { SpaceConv(3, 4, space, SpaceConvOptions{.groups = 2}); }), HasSubstr("2 groups"));
    EXPECT_THAT(refusal([&] { SpacePool(Pool::average, space, SpacePoolOptions{.dilation = {2}}); }),
                HasSubstr("only max"));
    EXPECT_THAT(refusal([&] { Space(space.group(), {3, 1}); }), HasSubstr("has 2"));
    SpaceHead head(1, space.even(std::vector<std::int64_t>{6, 6}), 2, space);
    EXPECT_THAT(refusal([&] { head->forward(tile); }),
                AllOf(HasSubstr("'head'"), HasSubstr("[6, 6]"), HasSubstr("[4, 4]")));
  });
}

}  // namespace
}  // namespace tutti::nn
