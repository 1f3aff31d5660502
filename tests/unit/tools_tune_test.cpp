// Ranges of sizes, computed from measured times.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tools/tune/check.hpp"
#include "tools/tune/model.hpp"
#include "tools/tune/network.hpp"

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
  EXPECT_EQ(borders(sizes, ranges), std::vector<std::size_t>{64});  // 128 and 256 differ by a factor of 2 only
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

// The times of a link whose constants are known.
LinkTimes times_of(const model::Link& link) {
  const auto one_way = [&](std::size_t bytes) {
    return link.latency + 2 * link.overhead + link.per_byte * static_cast<double>(bytes);
  };
  LinkTimes times;
  times.small = one_way(small_bytes);
  times.medium_bytes = 1 << 20;
  times.medium = one_way(times.medium_bytes);
  times.large_bytes = 4 << 20;
  times.large = one_way(times.large_bytes);
  times.burst_messages = 64;
  times.burst = times.small + 63 * link.overhead;
  return times;
}

TEST(TunedNetwork, ALinkIsFoundAgainInItsTimes) {
  for (const model::Link& link :
       {model::Link{0.3e-6, 1e-10, 0.1e-6}, model::Link{30e-6, 1 / 1.2e9, 5e-6}, model::Link{10e-3, 4e-8, 2e-6}}) {
    const model::Link found = fit_link(times_of(link));
    EXPECT_NEAR(found.latency, link.latency, 1e-3 * link.latency);
    EXPECT_NEAR(found.per_byte, link.per_byte, 1e-3 * link.per_byte);
    EXPECT_NEAR(found.overhead, link.overhead, 1e-3 * link.overhead);
  }
}

TEST(TunedNetwork, DisturbedTimesStillGiveALink) {
  LinkTimes times = times_of({30e-6, 1e-9, 5e-6});
  times.large = times.medium / 2;  // larger messages take less time
  times.burst = 1;                 // each message adds more than a single one takes
  const model::Link link = fit_link(times);
  EXPECT_GT(link.per_byte, 0);
  EXPECT_GT(link.latency, 0);
  EXPECT_NEAR(link.latency, 4e-6, 1e-7);  // a tenth of the 40 us of a small message
  times.burst = 0;
  EXPECT_GT(fit_link(times).overhead, 0);
  EXPECT_NEAR(fit_link(times).latency, 40e-6, 1e-6);
  times = times_of({30e-6, 1e-9, 5e-6});
  times.small = 0;
  EXPECT_GT(fit_link(times).latency, 0);
}

TEST(TunedNetwork, TextHasTheLevelsThatWereMeasured) {
  const model::Link near{0.3e-6, 1e-10, 0.1e-6}, far{30e-6, 1 / 1.2e9, 5e-6};
  MeasuredNetwork network{near, far, {}, 1e-10};
  EXPECT_EQ(text_of(network), "within 300ns 10G 100ns, between 30us 1.2G 5us, fold 10G");
  network.between.reset();
  EXPECT_EQ(text_of(network), "within 300ns 10G 100ns, fold 10G");
  EXPECT_EQ(model::parse_network(text_of(network))[model::Level::between],
            model::default_network()[model::Level::between]);
  network = {{}, far, {}, 1e-10};
  EXPECT_EQ(text_of(network), "between 30us 1.2G 5us, fold 10G");
  network.beyond = model::Link{50e-6, 1 / 4e9, 6e-6};
  EXPECT_EQ(text_of(network), "between 30us 1.2G 5us, beyond 50us 4G 6us, fold 10G");
  network.beyond.reset();
  network.cores = 0.125;
  EXPECT_EQ(text_of(network), "between 30us 1.2G 5us, fold 10G, cores 0.125");
}

TEST(TunedNetwork, HostsShareTheCoresOfTheirMachine) {
  const CoreSet two(0b11);
  std::vector<Place> ranks;
  for (int host = 0; host < 16; ++host) ranks.push_back({7, host, 1024, two});
  EXPECT_DOUBLE_EQ(cores_of_hosts(ranks), 0.125) << "16 hosts that a machine of 2 cores plays";
  ranks.resize(2);
  EXPECT_DOUBLE_EQ(cores_of_hosts(ranks), 0) << "a core for each";
  for (Place& one : ranks) one.quota = 1;
  EXPECT_DOUBLE_EQ(cores_of_hosts(ranks), 0.5) << "one of two cores at a time";
  ranks = {{1, 0, 1024, two}, {1, 0, 1024, two}, {2, 1, 1024, 0b1}, {2, 1, 1024, 0b1}, {2, 1, 1024, 0b1}};
  EXPECT_DOUBLE_EQ(cores_of_hosts(ranks), 1) << "the busier machine counts";
  ranks = {{1, 0, 1024, 0b01}, {1, 0, 1024, 0b10}};
  EXPECT_DOUBLE_EQ(cores_of_hosts(ranks), 0) << "bound to a core each";
}

TEST(TunedNetwork, AMessageTakesAsLongWhateverPartOfItIsOverhead) {
  const model::Link link = with_overhead({5e-6, 1e-9, 23e-6}, 11e-6);
  EXPECT_DOUBLE_EQ(link.overhead, 11e-6);
  EXPECT_NEAR(link.latency + 2 * link.overhead, 51e-6, 1e-12);
  EXPECT_GT(with_overhead(link, 1).latency, 0);
}

}  // namespace
}  // namespace tutti::tune
