// Samplers of all ranks of a run, and the samples that they get together.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/sampler.hpp"

namespace tutti::engine {

using Ids = std::vector<SampleId>;

inline void append(Ids& to, const Ids& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Returns all samples of an order, in that order.
inline Ids ids_of(const EpochOrder& order) {
  Ids found;
  for (std::size_t place = 0; place < order.size; ++place) found.push_back(order.at(place));
  return found;
}

/// Returns the order of samples in an epoch of a data set of blocks.
inline Ids order_by_blocks(const Blocks& blocks, std::uint64_t seed, std::size_t epoch) {
  return ids_of(shuffled_order({.samples = blocks.samples(), .seed = seed, .epoch = epoch, .blocks = &blocks}));
}

inline constexpr Way all_ways[] = {Way::batch, Way::contiguous, Way::strided, Way::file};
inline const std::vector<std::size_t> eleven_files{10, 1, 30, 7, 5, 20, 2, 8, 9, 10, 1};  // 103 samples

inline std::vector<Sampler> on_ranks(Sampler::Plan plan, int size, const Progress& progress = {}) {
  std::vector<Sampler> ranks;
  for (int r = 0; r < size; ++r) {
    plan.rank = r;
    plan.size = size;
    if (plan.way == Way::file) plan.files = eleven_files;
    ranks.emplace_back(plan).resume(progress);
  }
  return ranks;
}

struct Seen {
  std::map<SampleId, int> times, distinct_times;
  std::vector<std::size_t> counts;  // samples of each rank in each step
};

/// Records the ranks' samples in steps [begin, end), and checks that the ranks agree on the numbers of samples.
inline void look(const std::vector<Sampler>& ranks, std::size_t begin, std::size_t end, Seen& seen) {
  for (std::size_t step = begin; step < end; ++step) {
    std::size_t count = 0, distinct = 0;
    for (const Sampler& rank : ranks) {
      const auto local = rank.local(step);
      for (std::size_t i = 0; i < local.size(); ++i) {
        ++seen.times[local[i]];
        if (i < rank.distinct(step)) ++seen.distinct_times[local[i]];
      }
      count += local.size();
      distinct += rank.distinct(step);
      seen.counts.push_back(local.size());
      const auto pieces = rank.pieces(step);
      EXPECT_EQ(std::accumulate(pieces.begin(), pieces.end(), std::size_t{0}), local.size());
    }
    for (const Sampler& rank : ranks) {
      EXPECT_EQ(rank.global_count(step), count);
      EXPECT_EQ(rank.global_distinct(step), distinct);
      EXPECT_EQ(rank.steps(), ranks[0].steps());
    }
  }
}

inline Seen whole_epoch(const std::vector<Sampler>& ranks) {
  Seen seen;
  look(ranks, ranks[0].first_step(), ranks[0].steps(), seen);
  return seen;
}

inline std::string label(Way way, Remainder remainder, int size) {
  return "way " + std::to_string(static_cast<int>(way)) + ", remainder " + std::to_string(static_cast<int>(remainder)) +
         ", " + std::to_string(size) + " ranks";
}

/// Two steps run on `first` ranks, two on `second`, and the rest on `first` again, with another batch size. Checks that
/// every sample of the plan occurs once.
inline void expect_each_once_over(Sampler::Plan plan, int first, int second) {
  Seen seen;
  const std::string name = label(plan.way, Remainder::uneven, first);
  const auto before = on_ranks(plan, first, {.epoch = 3});
  look(before, 0, 2, seen);
  const auto between = on_ranks(plan, second, Progress::parse(before[0].progress(2).text()));
  EXPECT_EQ(between[0].first_step(), 2U);
  look(between, 2, 4, seen);
  plan.batch = 12;
  const auto after = on_ranks(plan, first, between.back().progress(4));
  look(after, after[0].first_step(), after[0].steps(), seen);
  EXPECT_EQ(seen.times.size(), plan.samples) << name << ", then " << second;
  for (const auto& [id, times] : seen.times) EXPECT_EQ(times, 1) << name;
}

}  // namespace tutti::engine
