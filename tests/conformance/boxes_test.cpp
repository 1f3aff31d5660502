// Meshes, and the exchange of boxes (index ranges of a grid) and its adjoint, between threads over every transport.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"
#include "tutti/box_exchange.hpp"
#include "tutti/cut.hpp"
#include "tutti/mesh.hpp"

namespace tutti::testing {
namespace {

std::vector<double> numbers(std::int64_t count, int seed) {
  std::mt19937 source(static_cast<std::uint32_t>(seed));
  std::uniform_int_distribution<int> draw(-99, 99);  // sums are exact
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = draw(source);
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

std::vector<Box> read_by(const Tiling& tiling, const Window& window) {
  std::vector<Box> want;
  for (const Box& tile : tiling.boxes()) {
    Box read;
    for (std::size_t d = 0; d < tile.size(); ++d) read.push_back(common(window.reads(tile[d]), tiling[d].whole()));
    want.push_back(read);
  }
  return want;
}

class Boxes : public ::testing::TestWithParam<const char*> {};

// The exchange A and its adjoint A' satisfy <A x, y> = <x, A' y> exactly, and received chunks are slices of the whole.
TEST_P(Boxes, GoThereAndBackExactly) {
  const std::vector<std::vector<int>> grids{{1, 2}, {2, 2}, {2, 3}, {3, 1}};
  for (const auto& grid : grids) {
    const Tiling tiling = Tiling::even(std::vector<std::int64_t>{7, 9}, grid);
    run_ranks(tiling.parts(), test_settings(GetParam()), [&](Communicator& world) {
      const Mesh mesh(world, {{"height", grid[0]}, {"width", grid[1]}});
      Communicator space = mesh["height,width"];
      const std::vector<double> whole = numbers(6 * 63, 1);
      for (const std::int64_t size : {1, 3, 7}) {
        BoxExchange halos(space, tiling.boxes(), read_by(tiling, {.size = size, .low = size / 2, .high = size / 2}));
        const BoxPlan& plan = halos.plan();
        std::vector<double> x(static_cast<std::size_t>(6 * volume(plan.have)));
        pack(whole.data(), tiling.whole(), plan.have, 6, sizeof(double), x.data());
        std::vector<double> ax(static_cast<std::size_t>(6 * volume(plan.want))), slice(ax);
        pack(whole.data(), tiling.whole(), plan.want, 6, sizeof(double), slice.data());
        halos.finish(halos.start(x.data(), 6), ax.data());
        require(ax == slice, "the chunk is a slice of the whole");
        const std::vector<double> y = numbers(static_cast<std::int64_t>(ax.size()), 2 + world.rank());
        std::vector<double> aty(x.size());
        halos.finish_adjoint(halos.start_adjoint(y.data(), 6), aty.data());
        require(space.allreduce(dot(ax, y)).wait() == space.allreduce(dot(x, aty)).wait(), "the adjoint");
      }
    });
  }
}

TEST_P(Boxes, SeveralExchangesMayBeOnTheirWay) {
  const Tiling tiling = Tiling::even(std::vector<std::int64_t>{12}, std::vector<int>{3});
  run_ranks(3, test_settings(GetParam()), [&](Communicator& world) {
    BoxExchange narrow(world, tiling.boxes(), read_by(tiling, {.size = 3, .low = 1, .high = 1}));
    BoxExchange wide(world, tiling.boxes(), read_by(tiling, {.size = 11, .low = 5, .high = 5}));
    std::vector<float> tile(4), near(6), far(12);
    for (std::size_t i = 0; i < 4; ++i) tile[i] = static_cast<float>(4 * world.rank()) + static_cast<float>(i);
    near.resize(static_cast<std::size_t>(volume(narrow.plan().want)));
    far.resize(static_cast<std::size_t>(volume(wide.plan().want)));
    auto first = narrow.start(tile.data(), 1), second = wide.start(tile.data(), 1);
    wide.finish(std::move(second), far.data());
    narrow.finish(std::move(first), near.data());
    for (std::size_t i = 0; i < near.size(); ++i)
      require(near[i] == static_cast<float>(narrow.plan().want[0].begin) + static_cast<float>(i), "the narrow halo");
    for (std::size_t i = 0; i < far.size(); ++i)
      require(far[i] == static_cast<float>(wide.plan().want[0].begin) + static_cast<float>(i), "the wide halo");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Boxes, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tutti::testing
