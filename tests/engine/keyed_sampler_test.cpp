// Orders by key: every sample once, on any number of ranks, also after resuming on others; memory that does not grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "engine/data/permutation.hpp"
#include "tests/engine/samplers.hpp"
#include "tests/support/counted_heap.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using tutti::testing::heap_use;
using tutti::testing::refusal;

TEST(Permutation, HasEveryNumberOnce) {
  std::vector<int> times;
  for (std::uint64_t count = 1; count <= 2000; ++count)
    for (const std::uint64_t key : {0, 1, 77}) {
      const Permutation numbers(count, Random(key));
      times.assign(count, 0);
      for (std::uint64_t i = 0; i < count; ++i) ++times.at(numbers(i));
      ASSERT_EQ(std::ranges::count(times, 1), static_cast<std::ptrdiff_t>(count)) << count << " numbers, key " << key;
    }
}

TEST(Permutation, OfManyNumbersStaysBelowTheirNumberAndRepeatsNone) {
  for (const std::uint64_t count : {std::uint64_t{1'000'000'000}, (std::uint64_t{1} << 32) + 1,
                                    (std::uint64_t{1} << 40) - 3, std::uint64_t{1} << 40, Permutation::most}) {
    const Permutation numbers(count, Random(5));
    std::set<std::uint64_t> seen;
    std::size_t upper_half = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const std::uint64_t place = i < 10'000 ? i : count - 1 - (i - 10'000);
      const std::uint64_t number = numbers(place);
      ASSERT_LT(number, count);
      seen.insert(number);
      upper_half += number >= count / 2 ? 1 : 0;
    }
    EXPECT_EQ(seen.size(), 20'000U) << count;
    EXPECT_NEAR(static_cast<double>(upper_half), 10'000, 500) << count;
  }
}

TEST(Permutation, DependsOnItsKeyInEveryPlace) {
  for (const std::uint64_t count : {5, 6, 8, 100}) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> times;  // how often a number was at a place
    const int keys = 600 * static_cast<int>(count);
    for (int key = 0; key < keys; ++key) {
      const Permutation numbers(count, Random::keyed(9, key));
      for (const std::uint64_t place : {std::uint64_t{0}, count / 2, count - 1}) ++times[{place, numbers(place)}];
    }
    for (const std::uint64_t place : {std::uint64_t{0}, count / 2, count - 1})
      for (std::uint64_t number = 0; number < count; ++number)
        EXPECT_NEAR((times[{place, number}]), 600, 150) << number << " at place " << place << " of " << count;
  }
}

TEST(Permutation, IsTheSameEverywhere) {
  const Permutation numbers(1'000'000'007, Random(3));
  EXPECT_EQ(numbers(0), 631'208'796U);
  EXPECT_EQ(numbers(1'000'000'006), 471'384U);
}

const std::vector<std::size_t> some_blocks{9, 4, 12, 1, 30, 2, 17, 8, 20};  // 103 samples

Sampler::Plan plan_of(Way way, bool in_blocks) {
  Sampler::Plan plan{.samples = 103, .batch = 16, .seed = 5, .way = way, .shuffle = Shuffle::keyed};
  if (in_blocks && way == Way::file) {
    for (const std::size_t samples : eleven_files) plan.blocks.files.push_back({samples / 2, samples - samples / 2});
    for (auto& file : plan.blocks.files) std::erase(file, 0);
  } else if (in_blocks) {
    plan.blocks.files = {some_blocks};
  }
  plan.blocks.window = 2;
  return plan;
}

TEST(KeyedSampler, GoesOnAtOtherNumbersOfRanksWithEverySampleOnce) {
  for (const bool in_blocks : {false, true})
    for (const Way way : all_ways)
      for (int first = 1; first <= 8; ++first)
        for (int second = 1; second <= 8; ++second) expect_each_once_over(plan_of(way, in_blocks), first, second);
}

TEST(KeyedSampler, DropsAndPadsAsFewAsAList) {
  for (const Way way : all_ways)
    for (const Remainder remainder : {Remainder::uneven, Remainder::drop, Remainder::pad})
      for (const Last last : {Last::keep, Last::drop, Last::pad})
        for (int size = 1; size <= 6; ++size) {
          Sampler::Plan plan = plan_of(way, false);
          plan.remainder = remainder;
          plan.last = last;
          plan.batch = 2 * static_cast<std::size_t>(size);
          const Seen keyed = whole_epoch(on_ranks(plan, size));
          plan.shuffle = Shuffle::listed;
          const Seen listed = whole_epoch(on_ranks(plan, size));
          EXPECT_EQ(keyed.counts, listed.counts) << label(way, remainder, size);
          EXPECT_EQ(keyed.distinct_times.size(), listed.distinct_times.size()) << label(way, remainder, size);
          for (const auto& [id, times] : keyed.distinct_times) EXPECT_EQ(times, 1) << label(way, remainder, size);
        }
}

TEST(KeyedSampler, ReadsEachBlockOnceAWindow) {
  const Sampler sampler(plan_of(Way::batch, true));
  std::vector<std::size_t> block_of;
  for (std::size_t block = 0; block < some_blocks.size(); ++block)
    block_of.insert(block_of.end(), some_blocks[block], block);
  std::vector<std::size_t> first(some_blocks.size(), 103), last(some_blocks.size());
  std::size_t place = 0;
  for (std::size_t step = 0; step < sampler.steps(); ++step)
    for (const SampleId id : sampler.local(step)) {
      first[block_of[id]] = std::min(first[block_of[id]], place);
      last[block_of[id]] = place++;
    }
  for (std::size_t i = 0; i < 103; ++i) {
    std::size_t open = 0;
    for (std::size_t block = 0; block < first.size(); ++block) open += first[block] <= i && i <= last[block] ? 1 : 0;
    EXPECT_LE(open, 2U) << "at place " << i;
  }
}

/// Returns the bytes that a rank's sampler takes from the heap, after it has begun an epoch and returned samples.
std::size_t bytes_of(std::size_t samples, int size, Way way, const Progress& progress = {}) {
  const std::size_t before = heap_use().bytes;
  Sampler sampler({.samples = samples,
                   .batch = 16 * static_cast<std::size_t>(size),
                   .rank = size / 2,
                   .size = size,
                   .way = way,
                   .shuffle = Shuffle::keyed});
  sampler.resume(progress);
  EXPECT_EQ(sampler.local(sampler.first_step()).size(), 16U);
  EXPECT_EQ(sampler.global_count(sampler.first_step()), 16 * static_cast<std::size_t>(size));
  return heap_use().bytes - before;
}

TEST(KeyedSampler, HoldsAsMuchForAnyNumberOfSamplesAndRanks) {
  for (const Way way : {Way::batch, Way::contiguous, Way::strided}) {
    for (const int size : {64, 1024, 8192, 65536})
      for (const std::size_t samples : {std::size_t{100'000'000}, std::size_t{1} << 40})
        EXPECT_LT(bytes_of(samples, size, way), 512U) << size << " ranks, " << samples << " samples";
  }
}

TEST(KeyedSampler, GoesOnInAnEpochOfManySamplesInConstantMemory) {
  for (const Way way : {Way::batch, Way::contiguous, Way::strided}) {
    const std::size_t samples = std::size_t{1} << 40;
    Sampler before(
        {.samples = samples, .batch = 1 << 20, .rank = 3, .size = 1000, .way = way, .shuffle = Shuffle::keyed});
    const Progress progress = before.progress(std::size_t{1} << 18);
    EXPECT_LT(bytes_of(samples, 8192, way, progress), 4096U);
  }
}

TEST(KeyedSampler, ListsRefuseWhatTheyCannotHold) {
  Sampler::Plan plan{.samples = (std::size_t{1} << 32) + 1, .batch = 8};
  EXPECT_THAT(refusal([&] { Sampler sampler(plan); }), ::testing::HasSubstr("data.order=keyed"));
  plan.shuffle = Shuffle::keyed;
  EXPECT_EQ(Sampler(plan).steps(), (std::size_t{1} << 29) + 1);
  Sampler::Plan small{.samples = 50, .batch = 8};
  const Progress listed = Sampler(small).progress(1);
  small.shuffle = Shuffle::keyed;
  EXPECT_THAT(refusal([&] { Sampler(small).resume(listed); }), ::testing::HasSubstr("data.order=list"));
}

}  // namespace
}  // namespace tutti::engine
