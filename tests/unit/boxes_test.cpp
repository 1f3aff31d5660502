// Cuts, windows, halos and the exchange of boxes (index ranges of a grid), simulated for all ranks in one thread.
#include "tutti/box_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/support/refusal.hpp"
#include "tutti/cut.hpp"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns (tile, outputs, low, high, tile with halos) of every rank along one dimension.
std::vector<std::vector<std::int64_t>> tiles(std::int64_t extent, std::int64_t size, std::int64_t stride, int parts) {
  const Window window{.size = size, .stride = stride};
  std::vector<std::vector<std::int64_t>> all;
  for (int j = 0; j < parts; ++j) {
    const Halo around = halo(window, extent, parts, j);
    const std::int64_t tile = Cut::even(extent, parts)[j].size();
    all.push_back({tile, Cut::even(window.outputs(extent), parts)[j].size(), around.low, around.high,
                   tile + around.low + around.high});
  }
  return all;
}

TEST(Windows, HaloWidthsAreThoseOfBalancedOutputs) {
  using Tiles = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(tiles(28, 5, 1, 2), (Tiles{{14, 12, 0, 2, 16}, {14, 12, 2, 0, 16}}));
  EXPECT_EQ(tiles(28, 5, 1, 4), (Tiles{{7, 6, 0, 3, 10}, {7, 6, 1, 2, 10}, {7, 6, 2, 1, 10}, {7, 6, 3, 0, 10}}));
  EXPECT_EQ(tiles(29, 5, 1, 4), (Tiles{{8, 7, 0, 3, 11}, {7, 6, 1, 2, 10}, {7, 6, 2, 1, 10}, {7, 6, 3, 0, 10}}));
  EXPECT_EQ(tiles(32, 5, 1, 2), (Tiles{{16, 14, 0, 2, 18}, {16, 14, 2, 0, 18}}));
  EXPECT_EQ(tiles(32, 5, 1, 4), (Tiles{{8, 7, 0, 3, 11}, {8, 7, 1, 2, 11}, {8, 7, 2, 1, 11}, {8, 7, 3, 0, 11}}));
  EXPECT_EQ(tiles(24, 2, 2, 2), (Tiles{{12, 6, 0, 0, 12}, {12, 6, 0, 0, 12}}));
  EXPECT_EQ(tiles(12, 5, 1, 2), (Tiles{{6, 4, 0, 2, 8}, {6, 4, 2, 0, 8}}));
  EXPECT_EQ(tiles(8, 3, 1, 2), (Tiles{{4, 3, 0, 1, 5}, {4, 3, 1, 0, 5}}));
  // Tiles are no multiple of the stride: outputs begin at 0, 2, 4 and at 6, 8, 10, and none reads position 13.
  EXPECT_EQ(tiles(14, 3, 2, 2), (Tiles{{7, 3, 0, 0, 7}, {7, 3, 1, -1, 7}}));
}

TEST(Windows, PaddingIsNoHalo) {
  const Window same{.size = 3, .low = 1, .high = 1};
  EXPECT_EQ(halo(same, 8, 2, 0), (Halo{0, 1}));
  EXPECT_EQ(halo(same, 9, 3, 1), (Halo{1, 1}));
  EXPECT_EQ(halo(same, 8, 2, 1), (Halo{1, 0}));
}

TEST(Windows, InnerOutputsReadNothingFromElsewhere) {
  const Window same{.size = 3, .low = 1, .high = 1};
  EXPECT_EQ(inner(same, {0, 4}, {0, 4}, 8), (Interval{0, 3}));
  EXPECT_EQ(inner(same, {4, 8}, {4, 8}, 8), (Interval{5, 8}));
  EXPECT_EQ(inner(same, {0, 8}, {0, 8}, 8), (Interval{0, 8}));
  EXPECT_TRUE(inner({.size = 7, .low = 3, .high = 3}, {2, 4}, {2, 4}, 8).empty());
  EXPECT_TRUE(inner({.size = 1, .low = 3, .high = 3}, {0, 9}, {1, 2}, 3).empty());  // padding, positions, padding
}

TEST(Windows, OutputsReadWhatTheyTouch) {
  for (std::int64_t extent = 1; extent < 9; ++extent)
    for (std::int64_t size = 1; size < 5; ++size)
      for (std::int64_t stride = 1; stride < 4; ++stride)
        for (std::int64_t dilation = 1; dilation < 3; ++dilation)
          for (std::int64_t low = 0; low < 3; ++low) {
            const Window window{.size = size, .stride = stride, .dilation = dilation, .low = low};
            for (std::int64_t o = 0; o < window.outputs(extent); ++o)
              EXPECT_EQ(window.reads({o, o + 1}), (Interval{o * stride - low, o * stride - low + window.reach()}));
            Window turned = window;
            turned.transposed = true;
            for (std::int64_t o = 0; o < turned.outputs(extent); ++o)  // reads exactly the inputs that add to o
              for (std::int64_t i = -9; i < extent + 9; ++i)
                for (std::int64_t k = 0; k < size; ++k)
                  if (i * stride - low + k * dilation == o) {
                    EXPECT_EQ(common(turned.reads({o, o + 1}), {i, i + 1}), (Interval{i, i + 1}));
                  }
          }
  EXPECT_EQ((Window{.size = 3, .stride = 2, .ceil = true}).outputs(6), 3);
  EXPECT_EQ((Window{.size = 2, .stride = 3, .low = 1, .high = 1, .ceil = true}).outputs(5), 2);
  EXPECT_EQ((Window{.size = 7}).outputs(5), 0);
  EXPECT_EQ((Window{.size = 3, .stride = 2, .ceil = true}).outputs(2), 1);
  EXPECT_EQ((Window{.size = 3, .stride = 2, .ceil = true}).outputs(1), 0);
  EXPECT_TRUE((Window{.size = 3}).reads({2, 2}).empty());
}

TEST(Cuts, AreEvenInTheirUnits) {
  EXPECT_EQ(Cut::even(10, 4), Cut({0, 3, 6, 8, 10}));
  EXPECT_EQ(Cut::even(12, 2, 4), Cut({0, 8, 12}));
  EXPECT_EQ(Cut::even(2, 3), Cut({0, 1, 2, 2}));
  EXPECT_EQ(Cut::of_sizes(std::vector<std::int64_t>{2, 0, 3}), Cut({0, 2, 2, 5}));
  EXPECT_THAT(refusal([] { Cut::even(10, 2, 4); }), HasSubstr("multiples of 4"));
  EXPECT_THAT(refusal([] { Cut({0, 3, 2}); }), HasSubstr("do not decrease"));
  const std::vector<std::int64_t> extents{5, 4};
  const std::vector<int> grid{2, 3};
  const Tiling tiling = Tiling::even(extents, grid);
  EXPECT_EQ(tiling.box(4), (Box{{3, 5}, {2, 3}}));
  EXPECT_EQ(tiling.place(5), (std::vector<int>{1, 2}));
  EXPECT_EQ(tiling.whole(), (Box{{0, 5}, {0, 4}}));
}

/// The state of all ranks after their messages were moved: the boxes that each has and wants, and the received chunks.
struct Played {
  std::vector<Box> have, want;
  std::vector<std::vector<double>> chunks;
  std::int64_t sent = 0;
  std::size_t messages = 0;
};

std::vector<double> numbers(std::int64_t count, std::uint32_t seed) {
  std::mt19937 source(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = draw(source);
  return values;
}

Played play(std::vector<Box> have, std::vector<Box> want, const std::vector<std::vector<double>>& tiles) {
  Played played{std::move(have), std::move(want), {}, 0, 0};
  const auto ranks = static_cast<int>(played.have.size());
  std::vector<BoxPlan> plans;
  for (int r = 0; r < ranks; ++r) plans.push_back(plan_boxes(played.have, played.want, r));
  for (int r = 0; r < ranks; ++r) {
    const BoxPlan& mine = plans[static_cast<std::size_t>(r)];
    std::vector<double> chunk(static_cast<std::size_t>(volume(mine.want)), 1e300), message;
    const auto move = [&](int from, const Box& box) {
      message.resize(static_cast<std::size_t>(volume(box)));
      pack(tiles[static_cast<std::size_t>(from)].data(), plans[static_cast<std::size_t>(from)].have, box, 1,
           sizeof(double), message.data());
      unpack(message.data(), mine.want, box, 1, sizeof(double), chunk.data());
    };
    move(r, mine.kept);
    for (const BoxPlan::Piece& piece : mine.takes) {
      const auto& gives = plans[static_cast<std::size_t>(piece.peer)].gives;
      const auto there = std::ranges::find_if(gives, [&](const BoxPlan::Piece& one) { return one.peer == r; });
      if (there == gives.end() || there->box != piece.box) ADD_FAILURE() << "a box that nobody sends";
      move(piece.peer, piece.box);
    }
    played.sent += mine.given();
    played.messages += mine.gives.size();
    played.chunks.push_back(std::move(chunk));
  }
  std::size_t taken = 0;
  for (const BoxPlan& plan : plans) taken += plan.takes.size();
  EXPECT_EQ(taken, played.messages);
  return played;
}

std::vector<Box> chunks_of(const Tiling& tiling, const std::vector<Window>& windows) {
  std::vector<Cut> outputs;
  for (std::size_t d = 0; d < windows.size(); ++d)
    outputs.push_back(Cut::even(windows[d].outputs(tiling[d].extent()), tiling[d].parts()));
  std::vector<Box> want;
  for (const Box& box : Tiling(outputs).boxes()) {
    Box read;
    for (std::size_t d = 0; d < windows.size(); ++d)
      read.push_back(common(windows[d].reads(box[d]), tiling[d].whole()));
    want.push_back(read);
  }
  return want;
}

void expect_slices_of_the_whole(const Tiling& tiling, const std::vector<Window>& windows) {
  const std::vector<double> whole = numbers(volume(tiling.whole()), 3);
  std::vector<std::vector<double>> tiles;
  for (const Box& box : tiling.boxes()) {
    tiles.emplace_back(static_cast<std::size_t>(volume(box)));
    pack(whole.data(), tiling.whole(), box, 1, sizeof(double), tiles.back().data());
  }
  const Played played = play(tiling.boxes(), chunks_of(tiling, windows), tiles);
  for (std::size_t r = 0; r < played.chunks.size(); ++r) {
    std::vector<double> slice(played.chunks[r].size());
    pack(whole.data(), tiling.whole(), played.want[r], 1, sizeof(double), slice.data());
    EXPECT_EQ(played.chunks[r], slice) << "rank " << r;
  }
}

TEST(Boxes, ChunksAreSlicesOfTheWholeOnAnyGrid) {
  const std::vector<std::vector<int>> grids{{1, 2}, {2, 1}, {2, 2}, {2, 3}, {3, 3}, {1, 1}};
  for (const auto& grid : grids)
    for (std::int64_t size = 1; size <= 7; ++size)
      for (std::int64_t stride = 1; stride <= 4; ++stride) {
        const std::vector<std::int64_t> extents{11, 13};
        const Window high{.size = size, .stride = stride, .dilation = 1 + size % 2, .low = size / 2, .high = size / 2};
        const Window wide{.size = 8 - size, .stride = 5 - stride};
        expect_slices_of_the_whole(Tiling::even(extents, grid), {high, wide});
      }
  const std::vector<std::int64_t> cube{5, 6, 7};
  const Window three{.size = 3, .low = 1, .high = 1};
  expect_slices_of_the_whole(Tiling::even(cube, std::vector<int>{2, 2, 2}), {three, three, three});
  const Tiling uneven({Cut({0, 1, 1, 9}), Cut({0, 7, 8})});  // an empty tile, and halos wider than tiles
  expect_slices_of_the_whole(uneven, {three, {.size = 5, .low = 2, .high = 2}});
}

TEST(Boxes, CornersComeFromTheDiagonalNeighbour) {
  const Tiling grid = Tiling::even(std::vector<std::int64_t>{9, 9}, std::vector<int>{3, 3});
  const Window same{.size = 3, .low = 1, .high = 1};
  const BoxPlan plan = plan_boxes(grid.boxes(), chunks_of(grid, {same, same}), 4);
  ASSERT_EQ(plan.takes.size(), 8U);  // eight neighbours; a tile at an edge has five, at a corner three
  EXPECT_EQ(plan.takes.front().box, (Box{{2, 3}, {2, 3}}));
  EXPECT_THAT(direction(plan.have, plan.takes.front().box), ElementsAre(-1, -1));
  EXPECT_THAT(direction(plan.have, plan.takes[1].box), ElementsAre(-1, 0));
  EXPECT_THAT(direction(plan.have, plan.takes.back().box), ElementsAre(1, 1));
  EXPECT_EQ(plan_boxes(grid.boxes(), chunks_of(grid, {same, same}), 1).takes.size(), 5U);
  EXPECT_EQ(plan_boxes(grid.boxes(), chunks_of(grid, {same, same}), 8).takes.size(), 3U);
  EXPECT_EQ(plan.given(), 16);  // four sides of 3 elements and four corners
  EXPECT_THAT(to_string(plan), HasSubstr("takes [2,3)x[2,3) from rank 0"));
}

TEST(Boxes, HalosWiderThanATileComeFromFarAway) {
  const Tiling line = Tiling::even(std::vector<std::int64_t>{8}, std::vector<int>{4});
  const BoxPlan plan = plan_boxes(line.boxes(), chunks_of(line, {{.size = 7, .low = 3, .high = 3}}), 0);
  ASSERT_EQ(plan.takes.size(), 2U);  // [2, 4) from rank 1 and [4, 5) from rank 2
  EXPECT_EQ(plan.takes[1].peer, 2);
  EXPECT_EQ(plan.takes[1].box, (Box{{4, 5}}));
}

TEST(Boxes, ThatNobodyHasAreRefused) {
  const std::vector<Box> have{{{0, 4}}, {{4, 8}}}, beyond{{{0, 4}}, {{3, 9}}}, twice{{{0, 5}}, {{4, 8}}};
  EXPECT_THAT(refusal([&] { plan_boxes(have, beyond, 1); }), HasSubstr("rank 1 wants [3,9)"));
  EXPECT_THAT(refusal([&] { plan_boxes(twice, have, 1); }), HasSubstr("do not cover once each"));
}

}  // namespace
}  // namespace tutti::testing
