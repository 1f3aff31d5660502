// Blocks of samples in files: orders that read each block once, on any number of ranks, and resuming within a block.
#include "engine/data/blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <numeric>
#include <set>

#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "tests/engine/samplers.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::refusal;

/// Makes files with these numbers of blocks; the blocks' lengths differ.
Blocks blocks_of(const std::vector<std::size_t>& files, std::size_t window, std::size_t open) {
  Blocks blocks{.window = window, .open = open};
  std::size_t number = 0;
  for (const std::size_t count : files) {
    blocks.files.emplace_back();
    for (std::size_t i = 0; i < count; ++i) blocks.files.back().push_back(1 + ++number * 7 % 12);
  }
  return blocks;
}

const std::vector<std::vector<std::size_t>> layouts{{1}, {10}, {3, 1, 4}, {1, 1, 1, 1, 1, 1, 1}, {7, 2, 9, 5, 5, 1}};

/// Returns for each sample the number of its block or, with `of_file`, of its file.
std::vector<std::size_t> places(const Blocks& blocks, bool of_file) {
  std::vector<std::size_t> found;
  std::size_t block = 0;
  for (std::size_t file = 0; file < blocks.files.size(); ++file)
    for (const std::size_t length : blocks.files[file])
      found.insert(found.end(), length, of_file ? (block++, file) : block++);
  return found;
}

/// Counts the reads of blocks or files if the `most` most recently used ones are cached.
std::size_t misses(const Ids& order, const std::vector<std::size_t>& place_of, std::size_t most) {
  std::list<std::size_t> kept;
  std::size_t count = 0;
  for (const SampleId id : order) {
    const auto found = std::find(kept.begin(), kept.end(), place_of[id]);
    if (found != kept.end()) {
      kept.erase(found);
    } else {
      ++count;
      if (kept.size() == most) kept.pop_back();
    }
    kept.push_front(place_of[id]);
  }
  return count;
}

Ids sorted(Ids ids) {
  std::ranges::sort(ids);
  return ids;
}

Ids counting(std::size_t count) {
  Ids all(count);
  std::iota(all.begin(), all.end(), SampleId{0});
  return all;
}

TEST(Blocks, AreReadOnceByWhoHoldsAWindow) {
  for (const auto& files : layouts)
    for (const std::size_t window : {1, 2, 3, 8, 100})
      for (const std::size_t open : {1, 2, 4, 100})
        for (std::size_t epoch = 0; epoch < 3; ++epoch) {
          const Blocks blocks = blocks_of(files, window, open);
          const Ids order = order_by_blocks(blocks, 5, epoch);
          EXPECT_EQ(sorted(order), counting(blocks.samples()));
          EXPECT_EQ(misses(order, places(blocks, false), window), blocks.count()) << window << " of " << files.size();
          EXPECT_EQ(misses(order, places(blocks, true), open), files.size()) << open << " of " << files.size();
        }
}

TEST(Blocks, OfAWindowAreMixed) {
  const Blocks blocks{.files = {std::vector<std::size_t>(64, 16)}, .window = 8};
  const std::vector<std::size_t> block_of = places(blocks, false);
  const Ids order = order_by_blocks(blocks, 1, 0);
  std::set<std::size_t> at_first, neighbours;
  for (std::size_t i = 0; i < 32; ++i) at_first.insert(block_of[order[i]]);
  for (std::size_t i = 0; i < 64; ++i) neighbours.insert(block_of[order[i * 16]] / 8);
  EXPECT_GE(at_first.size(), 6U);
  EXPECT_EQ(neighbours.size(), 8U) << "blocks that lie side by side are not in one window";
  EXPECT_FALSE(std::ranges::is_sorted(std::span(order).first(32)));
}

TEST(Blocks, OrderComesFromSeedAndEpoch) {
  const Blocks blocks = blocks_of({7, 2, 9}, 3, 2);
  EXPECT_EQ(order_by_blocks(blocks, 1, 4), order_by_blocks(blocks, 1, 4));
  EXPECT_NE(order_by_blocks(blocks, 1, 4), order_by_blocks(blocks, 1, 5));
  EXPECT_NE(order_by_blocks(blocks, 1, 4), order_by_blocks(blocks, 2, 4));
}

std::vector<Sampler> on_block_ranks(Sampler::Plan plan, int size, const Progress& progress) {
  plan.samples = plan.blocks.samples();
  for (const auto& file : plan.blocks.files)
    plan.files.push_back(std::accumulate(file.begin(), file.end(), std::size_t{0}));
  std::vector<Sampler> ranks;
  for (int r = 0; r < size; ++r) {
    plan.rank = r;
    plan.size = size;
    ranks.emplace_back(plan).resume(progress);
  }
  return ranks;
}

Ids steps_of(const std::vector<Sampler>& ranks, std::size_t begin, std::size_t end) {
  Ids found;
  for (std::size_t step = begin; step < end; ++step)
    for (const Sampler& rank : ranks) append(found, rank.local(step));
  return found;
}

TEST(SamplerBlocks, SeesEverySampleOnceInEveryWay) {
  for (const auto& files : layouts)
    for (const Way way : all_ways)
      for (int size = 1; size <= 5; ++size) {
        const Blocks blocks = blocks_of(files, 3, 2);
        const std::size_t units = way == Way::file ? files.size() : blocks.samples();
        if (units < static_cast<std::size_t>(size)) continue;
        const auto ranks = on_block_ranks({.batch = 7, .seed = 3, .way = way, .blocks = blocks}, size, {.epoch = 2});
        const Ids seen = steps_of(ranks, 0, ranks[0].steps());
        EXPECT_EQ(sorted(seen), counting(blocks.samples()));
        if (way == Way::batch) {
          EXPECT_EQ(seen, order_by_blocks(blocks, 3, 2)) << size << " ranks";
        }
      }
}

TEST(SamplerBlocks, RanksReadTheirFilesOneAfterTheOther) {
  const Blocks blocks = blocks_of({7, 2, 9, 5, 5, 1}, 3, 4);
  const auto ranks = on_block_ranks({.batch = 8, .way = Way::file, .blocks = blocks}, 2, {.epoch = 1});
  for (const Sampler& rank : ranks) {
    const Ids seen = steps_of({rank}, 0, rank.steps());
    EXPECT_EQ(misses(seen, places(blocks, true), 1), 3U);
    std::set<std::size_t> distinct;
    for (const SampleId id : seen) distinct.insert(places(blocks, false)[id]);
    EXPECT_EQ(misses(seen, places(blocks, false), 3), distinct.size());
  }
}

TEST(SamplerBlocks, GoesOnInTheSameOrder) {
  for (const Way way : all_ways)
    for (int first = 1; first <= 4; ++first)
      for (int second = 1; second <= 4; ++second) {
        const Sampler::Plan plan{.batch = 10, .seed = 8, .way = way, .blocks = blocks_of({7, 2, 9, 5, 5, 1}, 3, 2)};
        const auto before = on_block_ranks(plan, first, {.epoch = 3});
        const auto after = on_block_ranks(plan, second, Progress::parse(before[0].progress(4).text()));
        Ids seen = steps_of(before, 0, 4);
        const Ids rest = steps_of(after, after[0].first_step(), after[0].steps());
        if (first == second) {
          EXPECT_EQ(rest, steps_of(before, 4, before[0].steps()));
        }
        seen.insert(seen.end(), rest.begin(), rest.end());
        EXPECT_EQ(sorted(seen), counting(plan.blocks.samples())) << first << " ranks, then " << second;
      }
}

TEST(SamplerBlocks, RefusesAnotherOrdersPlaceAndOtherBlocks) {
  const Blocks blocks = blocks_of({7, 2}, 3, 2);
  Sampler::Plan plan{.samples = blocks.samples(), .batch = 4, .blocks = blocks};
  const Progress begun = Sampler(plan).progress(2);
  plan.blocks.window = 4;
  EXPECT_THAT(refusal([&] { Sampler(plan).resume(begun); }),
              AllOf(HasSubstr("blocks=9 window=4 open=2"), HasSubstr("window=3"), HasSubstr("options of data")));
  plan.blocks = blocks;
  std::swap(plan.blocks.files[0][0], plan.blocks.files[0][1]);
  EXPECT_THAT(refusal([&] { Sampler(plan).resume(begun); }), HasSubstr("digest="));
  plan.blocks = {};
  EXPECT_THAT(refusal([&] { Sampler(plan).resume(begun); }), HasSubstr("found"));
  plan.blocks = blocks;
  plan.samples = 20;
  EXPECT_THAT(refusal([&] { Sampler sampler(plan); }), HasSubstr("blocks' samples"));
}

TEST(SubsetBlocks, CountWhatIsLeftOfEach) {
  class Chunked : public Dataset {
   public:
    std::size_t size() const override { return 12; }
    Sample get(std::size_t) const override { return {}; }
    Blocks blocks() const override { return {.files = {{3, 3}, {2}, {4}}, .window = 2, .open = 2}; }
  };
  const Blocks left = Subset(std::make_shared<Chunked>(), {0, 2, 8, 9, 11}).blocks();
  EXPECT_THAT(left.files, ElementsAre(ElementsAre(2), ElementsAre(3)));
  EXPECT_EQ(left.window, 2U);
  EXPECT_EQ(left.open, 2U);
  EXPECT_THAT(ArrayDataset(Fields{}).blocks().files, IsEmpty());
}

TEST(Subset, OfEveryNthIsThatOfTheList) {
  struct Numbers : Dataset {
    std::size_t size() const override { return 29; }
    Sample get(std::size_t i) const override {
      Sample sample;
      sample["number"] = Array(std::vector<std::int64_t>{static_cast<std::int64_t>(i)}, {});
      return sample;
    }
    std::vector<std::size_t> files() const override { return {3, 0, 11, 1, 14}; }
    Blocks blocks() const override { return {.files = {{3}, {4, 7}, {1}, {2, 2, 10}}}; }
  };
  const auto whole = std::make_shared<Numbers>();
  const auto number = [](const Dataset& data, std::size_t i) { return data.get(i)["number"].as<std::int64_t>()[0]; };
  for (std::size_t stride = 1; stride <= 12; ++stride)
    for (std::size_t first = 0; first <= 30; ++first) {
      Ids ids;
      for (std::size_t i = first; i < whole->size(); i += stride) ids.push_back(i);
      const Subset listed(whole, ids), computed(whole, first, stride);
      ASSERT_EQ(computed.size(), listed.size());
      EXPECT_EQ(computed.files(), listed.files());
      EXPECT_EQ(computed.blocks().files, listed.blocks().files);
      for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(number(computed, i), number(listed, i));
      EXPECT_THROW(computed.get(ids.size()), std::out_of_range);
    }
}

}  // namespace
}  // namespace tutti::engine
