// From measured times to ranges of sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tools/tune/check.hpp"
#include "tools/tune/model.hpp"

namespace tutti::tune {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// latency + bytes / bandwidth
Curve line(const std::string& name, std::span<const std::size_t> sizes, double latency, double per_byte) {
  Curve curve{name, {}};
  for (const std::size_t size : sizes) curve.seconds.push_back(latency + per_byte * static_cast<double>(size));
  return curve;
}

TEST(Tune, OneCandidateTakesAll) {
  const auto sizes = grid(8, 64 << 20, 8);
  EXPECT_EQ(choose(sizes, std::vector{line("ring", sizes, 1e-6, 1e-9)}, 1.05),
            (std::vector<Range>{{0, SIZE_MAX, "ring"}}));
}

TEST(Tune, TwoLinesMeetWhereTheyCross) {
  const auto sizes = grid(8, 64 << 20, 2);
  // 2 us + n/1 GB/s and 12 us + n/2 GB/s cross at 20,000 bytes.
  const auto ranges =
      choose(sizes, std::vector{line("tree", sizes, 2e-6, 1e-9), line("ring", sizes, 12e-6, 0.5e-9)}, 1.0);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].target, "tree");
  EXPECT_EQ(ranges[1].target, "ring");
  EXPECT_EQ(ranges[0].low, 0u);
  EXPECT_EQ(ranges[1].low, ranges[0].high + 1);
  EXPECT_EQ(ranges[1].high, SIZE_MAX);
  EXPECT_NEAR(static_cast<double>(ranges[0].high), 20000, 1000);
}

TEST(Tune, WhatIsHardlyWorseStays) {
  const std::vector<std::size_t> sizes = {8, 64, 512, 4096};
  const std::vector<Curve> curves = {{"a", {1, 1.04, 1, 1}}, {"b", {2, 1.00, 2, 2}}};
  EXPECT_EQ(choose(sizes, curves, 1.05), (std::vector<Range>{{0, SIZE_MAX, "a"}}));
  EXPECT_EQ(choose(sizes, curves, 1.01).size(), 3u);
}

TEST(Tune, OfTwoThatLastAsLongTheFasterOne) {
  const std::vector<std::size_t> sizes = {8, 64};
  EXPECT_EQ(choose(sizes, std::vector<Curve>{{"a", {1.03, 1.03}}, {"b", {1, 1}}}, 1.05)[0].target, "b");
}

TEST(Tune, TheFavouriteIsTakenUpAgainAsSoonAsItIsGood) {
  const std::vector<std::size_t> sizes = {8, 64, 512, 4096, 32768};
  const std::vector<Curve> curves = {{"a", {1, 1, 1.3, 1, 1}}, {"b", {1.2, 1.2, 1, 1.04, 1.04}}};
  const auto ranges = choose(sizes, curves, 1.05);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[1].target, "b");
  EXPECT_EQ(ranges[2].target, "a");
  EXPECT_GE(ranges[1].low, 64u);
  EXPECT_LT(ranges[1].high, 4096u);
}

TEST(Tune, OneSizeThatIsFarOffMakesNobodyElseTheFavourite) {
  const std::vector<std::size_t> sizes = {8, 64, 512, 4096, 32768, 262144};
  const std::vector<Curve> curves = {{"a", {1, 1, 1, never, 1, 1}}, {"b", {1.1, 1.1, 1.1, 1, 1.1, 1.1}}};
  const auto ranges = choose(sizes, curves, 1.05);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].target, "a");
  EXPECT_EQ(ranges[2].target, "a");
}

TEST(Tune, WhatWasNotMeasuredIsNotChosenAndTheMiddleIsTheLogarithms) {
  const std::vector<std::size_t> sizes = {8, 64, 512};
  const auto ranges = choose(sizes, std::vector<Curve>{{"a", {1, 1, never}}, {"b", {never, never, 1}}}, 1.05);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].target, "a");
  EXPECT_NEAR(static_cast<double>(ranges[0].high), std::sqrt(64.0 * 512.0), 1);
}

TEST(Tune, DoubtfulIsWhereTheFavouriteIsBeaten) {
  const std::vector<Curve> curves = {
      {"a", {1, 1.04, 1, 2.5, 1, 1}}, {"b", {2, 1.00, 0.9, 2, 2, 2}}, {"c", {0.9, never, never, never, never, never}}};
  EXPECT_EQ(doubtful(curves, 6, 1.05), (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(doubtful({}, 0, 1.05), std::vector<std::size_t>());
  EXPECT_EQ(doubtful(std::vector<Curve>{{"a", {1}}, {"b", {2}}}, 1, 1.05), std::vector<std::size_t>{0});
}

TEST(Tune, BordersLieBetweenSizesOfDifferentCandidates) {
  const std::vector<std::size_t> sizes = {8, 32, 128, 256};
  const std::vector<Range> ranges = {{0, 50, "a"}, {51, 200, "b"}, {201, SIZE_MAX, "a"}};
  EXPECT_EQ(borders(sizes, ranges), std::vector<std::size_t>{64});  // 128 and 256 are near enough
  EXPECT_EQ(borders(sizes, std::vector<Range>{{0, SIZE_MAX, "a"}}), std::vector<std::size_t>());
}

TEST(Tune, AGridEndsWithItsLastSize) {
  EXPECT_EQ(grid(8, 100, 4), (std::vector<std::size_t>{8, 32, 100}));
  EXPECT_EQ(grid(8, 32, 2), (std::vector<std::size_t>{8, 16, 32}));
  EXPECT_EQ(grid(8, 600, 4, 100), (std::vector<std::size_t>{8, 32, 128, 256, 512, 600}));
}

Compared compared(double ours, double best, double first = 0) {
  Compared one;
  one.ours = ours;
  one.best = best;
  one.first = first;
  return one;
}

TEST(Tune, AVerdictNamesTheLeastRatioAndWhatWasMeasuredTwice) {
  Verdict verdict;
  verdict.add(compared(1, never));
  EXPECT_EQ(verdict.text(), "nothing comes near the rules' choice at any of 1 sizes");
  verdict.add(compared(1, 1.2));
  verdict.add(compared(2, 1.9, 0.8));
  EXPECT_TRUE(verdict.good());
  EXPECT_EQ(verdict.text(), "least ratio of the best other choice / ours: 0.95, of 3 sizes, 1 measured twice");
}

TEST(Tune, AVerdictBelowWhatIsEnoughSaysWhatToDo) {
  Verdict verdict;
  verdict.add(compared(1, 0.9));
  EXPECT_TRUE(verdict.good());
  verdict.add(compared(1, 0.89, 0.7));
  EXPECT_FALSE(verdict.good());
  EXPECT_EQ(verdict.text(),
            "least ratio of the best other choice / ours: 0.89, of 2 sizes, 1 measured twice; 1 below 0.90: tune anew "
            "while nothing else runs, with more --seconds, or drop what overrides the rules");
}

TEST(Tune, ASingleSizeAndNothingAtAll) {
  EXPECT_EQ(choose(std::vector<std::size_t>{0}, std::vector<Curve>{{"a", {2}}, {"b", {1}}}, 1.05),
            (std::vector<Range>{{0, SIZE_MAX, "b"}}));
  EXPECT_TRUE(choose(std::vector<std::size_t>{8}, std::vector<Curve>{{"a", {never}}}, 1.05).empty());
}

}  // namespace
}  // namespace tutti::tune
