// Sampler: which samples a rank gets in each step, in every Way of dividing them, and resuming within an epoch.
#include "engine/data/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "engine/data/random.hpp"
#include "tests/engine/samplers.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

TEST(Random, IsTheSameOnEveryPlatform) {
  // The first outputs of SplitMix64 from seed 0, as its author publishes them.
  Random random(0);
  EXPECT_EQ(random.next(), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(random.next(), 0x06c45d188009454fULL);
}

TEST(Random, KeysGiveDifferentStreams) {
  std::set<std::uint64_t> firsts;
  for (int seed = 0; seed < 8; ++seed)
    for (int epoch = 0; epoch < 8; ++epoch)
      for (int sample = 0; sample < 8; ++sample)
        firsts.insert(Random::keyed(static_cast<std::uint64_t>(seed), epoch, sample).next());
  EXPECT_EQ(firsts.size(), 512U);
}

TEST(Random, BelowIsUniformEnough) {
  Random random(7);
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) ++seen[random.below(7)];
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(Sampler, SeesEverySampleOnceAndAllRankCountsSeeTheSameBatches) {
  for (std::size_t samples : {5, 10, 103, 128})
    for (std::size_t batch : {5, 7, 64})
      for (int size = 1; size <= 5; ++size) {
        Sampler alone({.samples = samples, .batch = batch, .seed = 3});
        alone.start_epoch(2);
        std::vector<Sampler> ranks;
        for (int r = 0; r < size; ++r) {
          ranks.emplace_back(Sampler::Plan{.samples = samples, .batch = batch, .rank = r, .size = size, .seed = 3});
          ranks.back().start_epoch(2);
        }
        std::vector<SampleId> seen;
        for (std::size_t step = 0; step < alone.steps(); ++step) {
          std::vector<SampleId> together;
          for (const Sampler& rank : ranks) append(together, rank.local(step));
          const auto whole = alone.local(step);
          EXPECT_TRUE(std::equal(together.begin(), together.end(), whole.begin(), whole.end()));
          EXPECT_EQ(together.size(), alone.global_count(step));
          seen.insert(seen.end(), together.begin(), together.end());
        }
        std::sort(seen.begin(), seen.end());
        std::vector<SampleId> all(samples);
        std::iota(all.begin(), all.end(), SampleId{0});
        EXPECT_EQ(seen, all) << samples << " samples, batch " << batch << ", " << size << " ranks";
      }
}

TEST(Sampler, SharesDifferByOneAtMost) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(share(10, rank, 4).count, rank < 2 ? 3U : 2U);
  EXPECT_EQ(share(2, 3, 4).count, 0U);
  EXPECT_EQ(share(10, 3, 4).begin + share(10, 3, 4).count, 10U);
}

TEST(Sampler, OrderComesFromSeedAndEpochAlone) {
  const auto order = [](std::uint64_t seed, std::size_t epoch) {
    Sampler sampler({.samples = 50, .batch = 50, .seed = seed});
    sampler.start_epoch(epoch);
    return sampler.local(0);
  };
  EXPECT_EQ(order(1, 4), order(1, 4));
  EXPECT_NE(order(1, 4), order(1, 5));
  EXPECT_NE(order(1, 4), order(2, 4));
}

TEST(Sampler, RefusesMoreRanksThanSamples) {
  EXPECT_THAT(refusal([] { Sampler({.samples = 3, .batch = 8, .rank = 0, .size = 4}); }),
              AllOf(HasSubstr("4 ranks"), HasSubstr("only 3 samples")));
  EXPECT_THAT(refusal([] { Sampler({.samples = 9, .batch = 3, .rank = 0, .size = 4}); }), HasSubstr("set batch="));
}

TEST(SamplerWays, LoseNothingByDefaultAndDoNotOverlap) {
  for (const Way way : all_ways)
    for (int size = 1; size <= 8; ++size)
      for (const std::size_t batch : {8, 16, 25}) {
        const Seen seen = whole_epoch(on_ranks({.samples = 103, .batch = batch, .seed = 4, .way = way}, size));
        EXPECT_EQ(seen.times.size(), 103U) << label(way, Remainder::uneven, size);
        for (const auto& [id, times] : seen.times) EXPECT_EQ(times, 1) << label(way, Remainder::uneven, size);
      }
}

TEST(SamplerWays, DropLeavesOutAsFewAsNeeded) {
  for (const Way way : {Way::batch, Way::contiguous, Way::strided})
    for (int size = 1; size <= 8; ++size) {
      const std::size_t p = static_cast<std::size_t>(size), batch = 3 * p;
      const Seen seen =
          whole_epoch(on_ranks({.samples = 103, .batch = batch, .way = way, .remainder = Remainder::drop}, size));
      EXPECT_EQ(seen.times.size(), 103 / p * p) << label(way, Remainder::drop, size);
      for (const auto& [id, times] : seen.times) EXPECT_EQ(times, 1);
      for (std::size_t i = 0; i < seen.counts.size(); ++i) EXPECT_EQ(seen.counts[i], seen.counts[i / p * p]);
    }
}

TEST(SamplerWays, PadRepeatsAsFewAsNeededAndSaysWhich) {
  for (const Way way : {Way::batch, Way::contiguous, Way::strided})
    for (int size = 1; size <= 8; ++size) {
      const std::size_t p = static_cast<std::size_t>(size), batch = 3 * p;
      const Seen seen =
          whole_epoch(on_ranks({.samples = 103, .batch = batch, .way = way, .remainder = Remainder::pad}, size));
      std::size_t total = 0;
      for (const auto& [id, times] : seen.times) total += static_cast<std::size_t>(times);
      EXPECT_EQ(total, (103 + p - 1) / p * p) << label(way, Remainder::pad, size);
      EXPECT_EQ(seen.distinct_times.size(), 103U);
      for (const auto& [id, times] : seen.distinct_times) EXPECT_EQ(times, 1);
      for (std::size_t i = 0; i < seen.counts.size(); ++i) EXPECT_EQ(seen.counts[i], seen.counts[i / p * p]);
    }
}

TEST(SamplerLast, ShortStepsAreLeftOutOrFilledUp) {
  for (const Way way : {Way::batch, Way::contiguous, Way::strided})
    for (int size = 1; size <= 5; ++size)
      for (const std::size_t samples : {51U, 60U, 61U, 103U}) {
        const std::size_t batch = 6 * static_cast<std::size_t>(size);
        if (samples < batch) continue;
        const Sampler::Plan plan{.samples = samples, .batch = batch, .seed = 4, .way = way};
        const std::string what = label(way, Remainder::uneven, size) + ", " + std::to_string(samples) + " samples";
        Sampler::Plan dropping = plan, padding = plan;
        dropping.last = Last::drop;
        padding.last = Last::pad;
        const Seen kept = whole_epoch(on_ranks(plan, size)), dropped = whole_epoch(on_ranks(dropping, size)),
                   padded = whole_epoch(on_ranks(padding, size));
        EXPECT_EQ(kept.distinct_times.size(), samples) << what;
        EXPECT_EQ(padded.distinct_times.size(), samples) << what;
        for (const auto& [id, times] : padded.distinct_times) EXPECT_EQ(times, 1) << what;
        for (const auto& [id, times] : dropped.times) EXPECT_EQ(times, 1) << what;
        for (const std::size_t count : dropped.counts) EXPECT_EQ(count, 6U) << what;
        for (const std::size_t count : padded.counts) EXPECT_EQ(count, 6U) << what;
        if (way == Way::batch) {
          EXPECT_EQ(dropped.times.size(), samples / batch * batch) << what;
          EXPECT_EQ(padded.counts.size(), (samples + batch - 1) / batch * static_cast<std::size_t>(size)) << what;
        }
      }
}

TEST(SamplerLast, OtherSamplesAreLeftOutInEachEpoch) {
  Sampler sampler({.samples = 65, .batch = 64, .last = Last::drop});
  std::set<SampleId> seen;
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    sampler.start_epoch(epoch);
    ASSERT_EQ(sampler.steps(), 1U);
    for (const SampleId id : sampler.local(0)) seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 65U);
  EXPECT_THAT(refusal([] { Sampler({.samples = 63, .batch = 64, .last = Last::drop}); }), HasSubstr("batch"));
}

TEST(SamplerWays, PadOfTenOverFourIsTwo) {
  const Seen seen =
      whole_epoch(on_ranks({.samples = 10, .batch = 4, .way = Way::strided, .remainder = Remainder::pad}, 4));
  EXPECT_EQ(seen.times.size(), 10U);
  EXPECT_EQ(std::count_if(seen.times.begin(), seen.times.end(), [](const auto& each) { return each.second == 2; }), 2);
}

TEST(SamplerWays, InOrderAreTheRowsOneWouldExpect) {
  const auto first = [](Way way, int rank) {
    const Sampler sampler({.samples = 10, .batch = 4, .rank = rank, .size = 2, .way = way, .shuffled = false});
    return sampler.local(0);
  };
  EXPECT_THAT(first(Way::batch, 1), ElementsAre(2, 3));
  EXPECT_THAT(first(Way::contiguous, 1), ElementsAre(5, 6));
  EXPECT_THAT(first(Way::strided, 1), ElementsAre(1, 3));
}

TEST(SamplerWays, FilesAreDealtOutWholeAndBatchesGoAcrossThem) {
  Sampler::Plan plan{.samples = 132, .batch = 10, .shuffled = false, .files = {95, 30, 7}};
  plan.way = Way::file;
  const Sampler alone(plan);
  EXPECT_EQ(alone.steps(), 14U);
  for (std::size_t step = 0; step < 13; ++step) EXPECT_EQ(alone.local(step).size(), 10U);
  EXPECT_THAT(alone.local(9), ElementsAre(90, 91, 92, 93, 94, 95, 96, 97, 98, 99));
  EXPECT_EQ(alone.local(13).size(), 2U);
  plan.last = Last::drop;
  EXPECT_EQ(Sampler(plan).steps(), 13U);

  plan.size = 2;  // rank 0 has the first and the third file
  EXPECT_EQ(Sampler(plan).local(19)[1], 126U);
  plan.rank = 1;
  EXPECT_EQ(Sampler(plan).local(0)[0], 95U);
  plan.size = 4;
  EXPECT_THAT(refusal([&] { Sampler sampler(plan); }), AllOf(HasSubstr("4 ranks"), HasSubstr("only 3 files")));
}

TEST(SamplerWays, FilesAreInAnotherOrderInEachEpoch) {
  std::vector<Sampler> ranks = on_ranks({.samples = 103, .batch = 8, .seed = 2, .way = Way::file}, 2);
  std::set<SampleId> firsts;
  for (std::size_t epoch = 0; epoch < 20; ++epoch) {
    ranks[0].start_epoch(epoch);
    firsts.insert(ranks[0].local(0)[0]);
  }
  EXPECT_GT(firsts.size(), 5U);
}

TEST(SamplerGrains, AreTheSameOnAnyNumberOfRanks) {
  std::vector<Ids> expected;
  for (int size = 1; size <= 8; ++size) {
    std::vector<Ids> grains;
    const auto ranks = on_ranks({.samples = 103, .batch = 20, .grains = 8}, size);
    for (std::size_t step = 0; step < ranks[0].steps(); ++step)
      for (const Sampler& rank : ranks) {
        const Ids local = rank.local(step);
        auto at = local.begin();
        for (const std::size_t count : rank.pieces(step)) {
          grains.emplace_back(at, at + static_cast<std::ptrdiff_t>(count));
          at += static_cast<std::ptrdiff_t>(count);
        }
      }
    if (size == 1) expected = grains;
    EXPECT_EQ(grains, expected) << size;
  }
  EXPECT_EQ(expected.size(), 6U * 8);
  EXPECT_THAT(refusal([] { Sampler({.samples = 9, .batch = 8, .size = 4, .grains = 2}); }), HasSubstr("2 grains"));
}

TEST(SamplerProgress, GoesOnAtOtherNumbersOfRanksWithEverySampleOnce) {
  for (const Way way : all_ways)
    for (int first = 1; first <= 8; ++first)
      for (int second = 1; second <= 8; ++second)
        expect_each_once_over({.samples = 103, .batch = 16, .seed = 5, .way = way}, first, second);
}

TEST(SamplerProgress, GoesOnWithTheSameStepsOnAsManyRanks) {
  for (const Way way : all_ways)
    for (const Remainder remainder : {Remainder::uneven, Remainder::drop, Remainder::pad}) {
      const Sampler::Plan plan{.samples = 103, .batch = 12, .seed = 5, .way = way, .remainder = remainder};
      const auto whole = on_ranks(plan, 4);
      const auto rest = on_ranks(plan, 4, whole[1].progress(3));
      EXPECT_EQ(rest[0].first_step(), 3U);
      ASSERT_EQ(rest[0].steps(), whole[0].steps());
      for (std::size_t step = 3; step < whole[0].steps(); ++step)
        for (std::size_t r = 0; r < 4; ++r)
          EXPECT_TRUE(std::ranges::equal(rest[r].local(step), whole[r].local(step))) << label(way, remainder, 4);
      EXPECT_EQ(rest[2].progress(5), whole[2].progress(5));
    }
}

TEST(SamplerProgress, RefusesAnotherRunsPlace) {
  Sampler sampler({.samples = 50, .batch = 8, .seed = 1});
  const Progress other = Sampler({.samples = 50, .batch = 8, .seed = 2}).progress(1);
  EXPECT_THAT(refusal([&] { sampler.resume(other); }),
              AllOf(HasSubstr("seed=1"), HasSubstr("found samples=50 seed=2")));
  for (const char* bad :
       {"", "epoch=", "epoch=1 steps=2x", "epoch=1 steps=2x8@0 x", "epoch=1 steps=2x8@1,, x",
        "epoch=1 steps=2x8@4294967296 ", "epoch=1 steps=2x8@2147483648 ", "epoch=1 steps=4611686018427387905x8@1 ",
        "epoch=1 steps=4611686018427387904x8@1,1x8@1 ", "epoch=1 steps=2x4611686018427387905@1 "})
    EXPECT_THAT(refusal([&] { Progress::parse(bad); }), HasSubstr("no place in an epoch")) << bad;
}

// Saves and restores progress, as text, in data sets with more than 2^32 samples.
TEST(SamplerProgress, CountsAsFarAsSamplesDo) {
  constexpr std::size_t most = std::size_t{1} << 62;
  const Sampler::Plan plan{.samples = most, .batch = 8, .seed = 5, .shuffle = Shuffle::keyed};
  for (const std::size_t steps : {std::size_t{1} << 31, (std::size_t{1} << 32) + 1, most / 8 - 1}) {
    Sampler whole(plan), rest(plan);
    const Progress place = Progress::parse(whole.progress(steps).text());
    EXPECT_EQ(place, whole.progress(steps));
    rest.resume(place);
    EXPECT_EQ(rest.first_step(), steps);
    EXPECT_EQ(rest.local(steps), whole.local(steps));
    Sampler wider({.samples = most, .batch = 16, .seed = 5, .shuffle = Shuffle::keyed});
    wider.resume(place);
    EXPECT_EQ(wider.local(wider.first_step()).front(), whole.local(steps).front());
  }
}

TEST(SamplerProgress, OfMoreStepsThanSamplesLeavesNone) {
  for (const Way way : {Way::batch, Way::contiguous, Way::strided, Way::file})
    for (const char* steps : {"4611686018427387904x8@2", "4611686018427387904x3@2", "4611686018427387904x4@1"}) {
      Sampler sampler({.samples = 100, .batch = 8, .size = 2, .seed = 3, .way = way, .files = {60, 40}});
      Progress place = Progress::parse("epoch=0 steps=" + std::string(steps) + " x");
      place.data.clear();
      sampler.resume(place);
      EXPECT_EQ(sampler.first_step(), sampler.steps()) << steps;
    }
}

// After any number of steps of one sample each, rank 1 of two has taken no samples.
TEST(SamplerProgress, RanksWithoutSharesKeepTheirs) {
  for (const std::size_t steps : {std::size_t{50}, std::size_t{1} << 62}) {
    Rest rest(Way::strided, 101, {});
    rest.take({.size = 2, .batch = 1, .steps = steps});
    ASSERT_EQ(rest.size(), 50 + (steps == 50 ? 1U : 0U));
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(rest.place(i), 2 * i + 1);
  }
}

TEST(Sampler, RefusesBatchesThatCannotBeCutEvenly) {
  EXPECT_THAT(refusal([] { Sampler({.samples = 50, .batch = 10, .size = 4, .remainder = Remainder::drop}); }),
              AllOf(HasSubstr("batch of 10"), HasSubstr("4 equal parts")));
}

}  // namespace
}  // namespace tutti::engine
