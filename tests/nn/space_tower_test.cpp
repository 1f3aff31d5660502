// Whole networks over pictures in tiles have the losses of one rank, on any grid and with data parallelism.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "nn/gradient_sync.hpp"
#include "nn/parallel/linear.hpp"
#include "nn/parallel/space_layers.hpp"
#include "tests/nn/parallel_grids.hpp"

namespace tutti::nn {
namespace {

/// A convolution, a pool, another convolution and a head, in two or three dimensions, on one rank.
struct TowerInOnePlace {
  std::size_t dims;
  at::Tensor x, target, w1, b1, w2, w3, b3;

  explicit TowerInOnePlace(std::size_t dimensions) : dims(dimensions) {
    const bool is_flat = dims == 2;
    x = is_flat ? wave({4, 2, 11, 10}, 1) : wave({4, 2, 7, 6, 5}, 1);
    target = wave({4, 3}, 2);
    w1 = is_flat ? wave({4, 2, 3, 3}, 3) : wave({4, 2, 3, 3, 3}, 3);
    b1 = wave({4}, 4);
    w2 = is_flat ? wave({3, 4, 3, 2}, 5) : wave({3, 4, 2, 2, 2}, 5);
    w3 = is_flat ? wave({3, 3, 4, 4}, 6) : wave({3, 3, 3, 2, 2}, 6);
    b3 = wave({3}, 7);
  }
  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& each : {w1, b1, w2, w3, b3}) all.push_back(each.clone().requires_grad_());
    return all;
  }
  at::Tensor forward(const at::Tensor& in, const std::vector<at::Tensor>& p) const {
    const Sizes one(dims, 1), none(dims, 0), three(dims, 3), two(dims, 2);
    at::Tensor y = at::convolution(in, p[0], p[1], one, one, one, false, none, 1).relu();
    y = dims == 2 ? at::max_pool2d(y, three, two, one) : at::max_pool3d(y, three, two, one);
    y = at::convolution(y, p[2], {}, one, none, one, false, none, 1).tanh();
    return at::linear(y.flatten(1), p[3].flatten(1), p[4]);
  }
};

struct TowerInTiles : torch::nn::Module {
  TowerInTiles(const Space& grid, const TowerInOnePlace& whole) : space(grid) {
    const bool is_flat = whole.dims == 2;
    low = register_module("low", SpaceConv(2, 4, space, SpaceConvOptions{.kernel = {3}, .padding = {1}}));
    SpaceConvOptions small{.kernel = is_flat ? Sizes{3, 2} : Sizes{2}};
    small.bias = false;
    high = register_module("high", SpaceConv(4, 3, space, small));
    pool = SpacePool(Pool::max, space, SpacePoolOptions{.kernel = {3}, .stride = {2}, .padding = {1}});
    head = register_module("head", SpaceHead(3, space.even(whole.w3.sizes().slice(2)), 3, space));
    to(at::kDouble);
    low->load("weight", whole.w1), low->load("bias", whole.b1), high->load("weight", whole.w2);
    head->load("weight", whole.w3), head->load("bias", whole.b3);
  }
  at::Tensor forward(const at::Tensor& whole) {
    Tile y = low->forward(space.cut(whole));
    y.values = y.values.relu();
    y = high->forward(pool->forward(y));
    y.values = y.values.tanh();
    return head->forward(y);
  }
  Space space;
  SpaceConv low{nullptr}, high{nullptr};
  SpacePool pool{nullptr};
  SpaceHead head{nullptr};
};

void step(const std::vector<at::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor each : parameters) each.sub_(each.grad(), 0.02);
}

std::vector<double> losses_in_one_place(const TowerInOnePlace& tower) {
  const std::vector<at::Tensor> p = tower.parameters();
  std::vector<double> losses;
  for (int i = 0; i < 100; ++i) {
    for (const at::Tensor& each : p) each.mutable_grad().reset();
    const at::Tensor loss = (tower.forward(tower.x, p) - tower.target).pow(2).sum(1).mean();
    loss.backward();
    step(p);
    losses.push_back(loss.item<double>());
  }
  return losses;
}

/// `axes`: a mesh with tiles, with or without two replicas.
void expect_the_same_losses(const TowerInOnePlace& tower, const std::vector<double>& wanted,
                            std::vector<Mesh::Axis> axes) {
  int ranks = 1;
  for (const Mesh::Axis& axis : axes) ranks *= axis.size;
  run_inproc(ranks, [&](Communicator& world) {
    const Mesh mesh(world, axes);
    TowerInTiles net(Space(mesh, static_cast<int>(tower.dims)), tower);
    const Group data = group_of(mesh, "data");
    std::optional<GradientSync> sync;
    if (data->size() > 1) sync.emplace(net, *data->communicator());
    const Interval mine = Cut::even(4, data->size())[data->rank()];
    const at::Tensor x = tower.x.narrow(0, mine.begin, mine.size()),
                     target = tower.target.narrow(0, mine.begin, mine.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      sync ? sync->zero_grad() : net.zero_grad();
      const at::Tensor loss = (net.forward(x) - target).pow(2).sum(1).mean();
      loss.backward();
      if (sync) sync->finish();
      step(net.parameters());
      const double mean = data->allreduce(loss.detach(), avg).item<double>();
      ASSERT_NEAR(mean, wanted[i], 1e-10) << mesh.name() << ", step " << i;
    }
  });
}

TEST(SpaceTower, HasTheSequentialTrajectoryOnEveryGrid) {
  const TowerInOnePlace flat(2);
  const std::vector<double> wanted = losses_in_one_place(flat);
  EXPECT_LT(wanted.back(), wanted.front() / 2);
  for (const auto& grid : grids) expect_the_same_losses(flat, wanted, {{"height", grid[0]}, {"width", grid[1]}});
  expect_the_same_losses(flat, wanted, {{"data", 2}, {"height", 2}, {"width", 1}});
  expect_the_same_losses(flat, wanted, {{"data", 2}, {"height", 2}, {"width", 2}});
}

TEST(SpaceTower, HasTheSequentialTrajectoryInThreeDimensions) {
  const TowerInOnePlace deep(3);
  expect_the_same_losses(deep, losses_in_one_place(deep), {{"depth", 2}, {"height", 2}, {"width", 2}});
}

// Tiles are followed by layers that are split over the same ranks.
TEST(SpaceTower, GoesOnInAParallelHead) {
  const at::Tensor x = wave({2, 1, 6, 6}, 1), k = wave({2, 1, 3, 3}, 2), w1 = wave({7, 32}, 3), w2 = wave({3, 7}, 4);
  const at::Tensor kernel = k.clone().requires_grad_(), a = w1.clone().requires_grad_();
  const at::Tensor wanted = at::linear(at::linear(at::conv2d(x, kernel).flatten(1), a).relu(), w2);
  wanted.pow(2).sum().backward();
  on_grid({2, 2}, [&](const Space& space) {
    SpaceConv conv(1, 2, space, SpaceConvOptions{.kernel = {3}, .bias = false});
    ColumnParallelLinear low(32, 7, space.group(), ParallelLinearOptions{.bias = false});
    RowParallelLinear high(7, 3, space.group(), ParallelLinearOptions{.bias = false});
    conv->to(at::kDouble), low->to(at::kDouble), high->to(at::kDouble);
    conv->load("weight", k), low->load("weight", w1), high->load("weight", w2);
    const at::Tensor y = high->forward(low->forward(space.whole(conv->forward(space.cut(x))).flatten(1)).relu());
    expect_near(y, wanted.detach());
    y.pow(2).sum().backward();
    expect_near(conv->weight.grad(), kernel.grad());
    expect_near(low->whole_gradient("weight"), a.grad());
  });
}

/// neon's sparse autoencoder of one layer: filters, a decoder with the same or with its own filters, and a pool whose
/// outputs ought to be small. Returns the losses of ten steps.
std::vector<double> autoencoder_losses(const Space& space, bool is_tied) {
  const std::vector<std::int64_t> extents{8, 8};
  const at::Tensor x = wave({3, 1, 8, 8}, 1);
  SpaceLocalFilter encoder(1, 2, extents, space, LocalFilterOptions{.kernel = {3}, .seed = 3});
  SpaceLocalFilter other(1, 2, extents, space, LocalFilterOptions{.kernel = {3}, .seed = 3});
  SpaceLocalFilter decoder = is_tied ? encoder : other;
  SpacePool pool = L2PoolingLayerDist(space, {.kernel = {2}});
  std::vector<SpaceLocalFilter> layers{encoder};
  if (!is_tied) layers.push_back(decoder);
  for (SpaceLocalFilter& layer : layers) layer->to(at::kDouble), layer->normalise_filters();
  std::vector<double> losses;
  for (int i = 0; i < 10; ++i) {
    for (SpaceLocalFilter& layer : layers) layer->zero_grad();
    const Tile picture = space.cut(x), y = encoder->forward(picture), z = decoder->backwards(y);
    const at::Tensor loss =
        ((z.values - picture.values).pow(2).sum() + 0.1 * pool->forward(y).values.sum()) / 3;  // its part of the loss
    loss.backward();
    for (SpaceLocalFilter& layer : layers) {
      const torch::NoGradGuard no_grad;
      layer->weight.sub_(layer->weight.grad(), 0.05);
      layer->normalise_filters();
    }
    losses.push_back(space.group()->allreduce(loss.detach()).item<double>());
  }
  return losses;
}

TEST(SparseAutoencoder, PretrainsAsOnOneRank) {
  for (const bool is_tied : {true, false}) {
    std::vector<double> wanted;
    on_grid({1, 1}, [&](const Space& space) { wanted = autoencoder_losses(space, is_tied); });
    EXPECT_LT(wanted.back(), wanted.front());
    for (const auto& grid : {std::vector{2, 2}, std::vector{2, 3}})
      on_grid(grid, [&](const Space& space) {
        const std::vector<double> got = autoencoder_losses(space, is_tied);
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-10) << "step " << i;
      });
  }
}

}  // namespace
}  // namespace tutti::nn
