// The growth of plans with the number of ranks: memory and work of a rank until its first and its last step, for every
// algorithm with 64 to 65,536 ranks. Counts bytes, steps and messages, not times.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "collectives/plan/footprint.hpp"
#include "collectives/plan/geometry.hpp"
#include "collectives/plan/plans.hpp"
#include "tests/support/counted_heap.hpp"
#include "tutti/topology.hpp"

namespace tutti::testing {
namespace {

constexpr std::array sizes{64, 1024, 8192, 65536};
constexpr std::size_t most_bytes = 4 << 10;  // limit tested for a schedule; 64 KiB are allowed

/// Returns hosts of 8 ranks or, if `differ`, of 8, 3, 8, 5, 1 and 8 ranks in turn; ranks are in blocks.
Hosts hosts_for(int size, bool differ) {
  constexpr std::array uneven{8, 3, 8, 5, 1, 8};
  std::vector<int> host;
  for (int number = 0; static_cast<int>(host.size()) < size; ++number) {
    const int ranks = differ ? uneven[static_cast<std::size_t>(number) % uneven.size()] : 8;
    for (int i = 0; i < ranks && static_cast<int>(host.size()) < size; ++i) host.push_back(number);
  }
  return Hosts(host, size);
}

std::vector<int> some_ranks(int size) { return {0, 1, size / 2 + 3, size - 1}; }

Shape shape_for(const Algorithm& algorithm, int rank, const Hosts& hosts) {
  const int size = static_cast<int>(hosts.host().size());
  const bool whole =
      algorithm.kind == Kind::allreduce || algorithm.kind == Kind::reduce || algorithm.kind == Kind::broadcast;
  const std::size_t count = algorithm.kind == Kind::barrier ? 0 : whole ? 16 * static_cast<std::size_t>(size) : 16;
  return {.rank = rank, .size = size, .count = count, .hosts = &hosts};
}

bool fits(const Algorithm& algorithm, const Shape& shape) { return algorithm.fits == nullptr || algorithm.fits(shape); }

/// The allocations and visited hosts, for differences between two moments.
struct Used {
  std::size_t allocations;
  std::uint64_t visited;
  bool operator==(const Used&) const = default;
};
Used used() { return {heap_use().allocations, Hosts::visited()}; }

std::string test_name(const ::testing::TestParamInfo<const Algorithm*>& tested) {
  return std::string(name(tested.param->kind)) + "_" + std::string(tested.param->name);
}

class EveryPlan : public ::testing::TestWithParam<const Algorithm*> {};

void plan_and_play(const Algorithm& algorithm, const Shape& shape) {
  const std::string who = std::to_string(shape.size) + " ranks, rank " + std::to_string(shape.rank);
  const Used before = used();
  const Schedule plan = algorithm.plan(shape);
  std::size_t until_first = 0, steps = 0;
  for (int i = 0; i < plan.rounds(); ++i)
    plan.play(i, [&](const Step&) {
      if (++steps == 1) until_first = used().allocations - before.allocations;
    });
  const Used after = used();
  EXPECT_EQ(until_first, 0u) << who;
  EXPECT_EQ(after, before) << who;
  EXPECT_LE(plan.bytes(), most_bytes);
  EXPECT_EQ(plan.bytes(), sizeof(Schedule)) << "what it says is what the heap says";
}

TEST_P(EveryPlan, TakesNoMoreMemoryForMoreRanksAndVisitsNoHosts) {
  const Algorithm& algorithm = *GetParam();
  for (const int size : sizes)
    for (const bool differ : {false, true}) {
      const Hosts hosts = hosts_for(size, differ);
      for (const int rank : some_ranks(size)) {
        Shape shape = shape_for(algorithm, rank, hosts);
        if (!fits(algorithm, shape)) continue;
        for (shape.way = 0; shape.way < ways_of(algorithm, shape); ++shape.way) plan_and_play(algorithm, shape);
      }
    }
}

/// Returns the most steps of some ranks.
std::size_t most_steps(const Algorithm& algorithm, int size, bool differ) {
  const Hosts hosts = hosts_for(size, differ);
  std::size_t most = 0;
  for (const int rank : some_ranks(size)) {
    const Shape shape = shape_for(algorithm, rank, hosts);
    if (fits(algorithm, shape)) most = std::max(most, tally(algorithm.plan(shape)).steps);
  }
  return most;
}

/// True if steps grow with the logarithm of the ranks; for other algorithms they grow with the ranks.
bool is_logarithmic(const Algorithm& algorithm) {
  const std::string_view name = algorithm.name;
  const bool halves = name == "binomial" || name == "bruck" || name == "recursive_doubling" || name == "tree" ||
                      name == "tree_of_hosts" || name == "cartesian" || name == "halving_doubling" ||
                      name == "dissemination" || name == "double_tree" || name.find("chain") != std::string_view::npos;
  if (name == "multiport") return algorithm.kind != Kind::allgather && algorithm.kind != Kind::reduce_scatter;
  if (name == "hierarchical_halving") return algorithm.kind == Kind::allreduce;
  return halves || (name == "hierarchical" && (algorithm.kind == Kind::broadcast || algorithm.kind == Kind::reduce ||
                                               algorithm.kind == Kind::barrier));
}

/// Steps inside a host of 8: with each other rank, two messages sent, two received, and one fold.
std::size_t inside_steps(const Algorithm& algorithm) {
  return algorithm.name == "hierarchical_halving" ? std::size_t{7} * 5 : 0;
}

TEST_P(EveryPlan, MakesStepsInProportionToTheRanksOrTheirLogarithm) {
  const Algorithm& algorithm = *GetParam();
  for (const bool differ : {false, true}) {
    std::map<int, std::size_t> steps;
    for (const int size : sizes) steps[size] = most_steps(algorithm, size, differ);
    if (steps[64] == 0) continue;  // does not fit
    const double growth = static_cast<double>(steps[65536]) / static_cast<double>(steps[64]);
    EXPECT_LE(std::log(growth) / std::log(1024.0), is_logarithmic(algorithm) ? 0.2 : 1.02);
    // If one host has a single rank, a single rank of each host talks to other hosts, and serves up to 8 ranks.
    const std::size_t each = differ ? 17 : 6;
    for (const int size : sizes) {
      const auto p = static_cast<std::size_t>(size), doublings = static_cast<std::size_t>(log2_ceil(size));
      EXPECT_LE(steps[size], is_logarithmic(algorithm) ? 5 * doublings + 3 + inside_steps(algorithm) : each * p)
          << size;
    }
  }
}

class EveryVariablePlan : public EveryPlan {};

TEST_P(EveryVariablePlan, HoldsItsTableOnce) {
  const Algorithm& algorithm = *GetParam();
  for (const int size : sizes) {
    const Hosts hosts = hosts_for(size, true);
    std::vector<std::size_t> counts;
    for (int i = 0; i < size; ++i) counts.push_back(static_cast<std::size_t>(i % 5));
    const BlockTable table(counts, algorithm.crossing != nullptr ? &hosts : nullptr);
    EXPECT_LE(table.bytes(), (algorithm.crossing != nullptr ? 2u : 1u) * 8u * (static_cast<std::size_t>(size) + 1));
    for (const int rank : some_ranks(size)) {
      Shape shape = shape_for(algorithm, rank, hosts);
      if (algorithm.kind != Kind::reduce_scatter && algorithm.kind != Kind::scatter) shape.out_blocks = &table;
      if (algorithm.kind != Kind::allgather && algorithm.kind != Kind::gather) shape.in_blocks = &table;
      if (!fits(algorithm, shape)) continue;
      const Used before = used();
      const Schedule plan = algorithm.plan(shape);
      (void)tally(plan);
      EXPECT_EQ(used(), before) << size << " ranks, rank " << rank;
      EXPECT_EQ(plan.bytes(), sizeof(Schedule));
    }
  }
}

std::vector<const Algorithm*> variable_ones() {
  std::vector<const Algorithm*> found;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->variable) found.push_back(algorithm);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryPlan, ::testing::ValuesIn(catalog().begin(), catalog().end()), test_name);
INSTANTIATE_TEST_SUITE_P(Catalog, EveryVariablePlan, ::testing::ValuesIn(variable_ones()), test_name);

// ---- hosts --------------------------------------------------------------------------------------

TEST(HostsGrowth, VisitEveryRankOnceAndTakeSixteenBytesForEach) {
  for (const int size : sizes)
    for (const bool differ : {false, true}) {
      const std::vector<int> host = [&] {
        const Hosts given = hosts_for(size, differ);
        return std::vector<int>(given.host().begin(), given.host().end());
      }();
      const std::uint64_t before = Hosts::visited();
      const std::size_t bytes = heap_use().bytes;
      const Hosts hosts(host, size);
      EXPECT_EQ(Hosts::visited() - before, static_cast<std::uint64_t>(size));
      const std::size_t hosts_bytes = 8 * static_cast<std::size_t>(hosts.count());
      EXPECT_LE(hosts.bytes(), sizeof(Hosts) + 16 * static_cast<std::size_t>(size) + hosts_bytes);
      EXPECT_LE(heap_use().bytes - bytes, 16 * static_cast<std::size_t>(size) + hosts_bytes + 256);
    }
}

// ---- lanes --------------------------------------------------------------------------------------

// 64 KiB per rank. Without a least size, 8,000 ranks had 500 lanes with messages of 131 bytes.
TEST(LanesGrowth, SendNoMessageBelowItsLeast) {
  constexpr std::size_t count = 16 << 10, width = 4, lane_bytes = 1 << 20, least = 8 << 10;
  EXPECT_EQ(least_message(lane_bytes), least);
  for (const Algorithm* algorithm : catalog()) {
    if (algorithm->kind == Kind::barrier) continue;
    for (const int size : {2, 8, 64, 1024, 8192}) {
      const Hosts hosts = hosts_for(size, false);
      Shape shape = shape_for(*algorithm, 1, hosts);
      const bool whole = shape.count != 16;
      shape.count = whole ? count * static_cast<std::size_t>(size) : count;
      if (!fits(*algorithm, shape)) continue;
      const Footprint found = footprint_of(*algorithm, shape, width, lane_bytes);
      if (found.lanes.number == 1) continue;
      SCOPED_TRACE(std::string(name(algorithm->kind)) + " " + std::string(algorithm->name) + ", " +
                   std::to_string(size) + " ranks, " + std::to_string(found.lanes.number) + " lanes");
      if (found.shortest > 0) {
        EXPECT_GE(found.shortest * width, least);
      }
      EXPECT_GE((shape.count - (found.lanes.number - 1) * found.lanes.count) * width, least) << "the last lane";
    }
  }
}

std::size_t messages_of(Kind kind, const char* algorithm, int size, std::size_t count) {
  const Hosts hosts = hosts_for(size, false);
  const Shape shape{.rank = 1, .size = size, .count = count, .hosts = &hosts};
  return footprint_of(*find_algorithm(kind, algorithm), shape).tally.messages;
}

TEST(LanesGrowth, MessagesOfARank) {
  constexpr std::size_t block = 16 << 10;                                 // 64 KiB
  EXPECT_EQ(messages_of(Kind::alltoall, "linear", 64, block), 4u * 63u);  // 4 MiB in 4 lanes
  EXPECT_EQ(messages_of(Kind::alltoall, "linear", 1024, block), 8u * 1023u);
  EXPECT_EQ(messages_of(Kind::alltoall, "pairwise", 8192, block), 8u * 8191u);
  EXPECT_EQ(messages_of(Kind::allgather, "ring", 8192, block), 8u * 8191u);
  EXPECT_EQ(messages_of(Kind::reduce_scatter, "pairwise", 8192, block), 8u * 8191u);
  // An allreduce of 64 MiB has 64 lanes on 64 ranks, and one lane with chunks of 8 KiB on 8,192 ranks.
  EXPECT_EQ(messages_of(Kind::allreduce, "ring", 64, 16 << 20), 64u * 2u * 63u);
  EXPECT_EQ(messages_of(Kind::allreduce, "ring", 1024, 16 << 20), 8u * 2u * 1023u);
  EXPECT_EQ(messages_of(Kind::allreduce, "ring", 8192, 16 << 20), 2u * 8191u);
}

TEST(Lanes, AreAsBeforeWhereMessagesAreLong) {
  const Algorithm& linear = *find_algorithm(Kind::alltoall, "linear");
  const auto lanes = [&](int size, std::size_t count, std::size_t lane_bytes) {
    return lanes_of(linear, {.size = size, .count = count}, 4, lane_bytes);
  };
  EXPECT_EQ(lanes(1, 1 << 30, 64), (Lanes{1, 1 << 30}));
  EXPECT_EQ(lanes(4, 0, 64), (Lanes{1, 0}));
  EXPECT_EQ(lanes(4, 1 << 20, 1 << 20), (Lanes{16, 1 << 16}));
  EXPECT_EQ(lanes(4, 1000, 4 << 10), (Lanes{4, 250}));
  EXPECT_EQ(lanes(4, 3, 64), (Lanes{1, 3}));
  EXPECT_EQ(lanes(33, 100, 64), (Lanes{100, 1}));  // 33 elements of 4 bytes exceed a lane
  EXPECT_EQ(lanes_of(*find_algorithm(Kind::alltoall, "bruck"), {.size = 4, .count = 1 << 20}, 4, 64),
            (Lanes{1, 1 << 20}));
}

// ---- plans kept for the next call ---------------------------------------------------------------

TEST(Plans, AreFoundAgain) {
  Plans plans;
  const Algorithm &ring = *find_algorithm(Kind::allreduce, "ring"), &tree = *find_algorithm(Kind::allreduce, "tree");
  const Shape small{.rank = 1, .size = 8, .count = 2}, large{.rank = 1, .size = 8, .count = 9000};
  const std::string expected = to_string(ring.plan(small));
  const Schedule& first = plans.take(ring, small);
  plans.give_back(first);
  for (int i = 0; i < 100; ++i) {
    const Schedule& again = plans.take(ring, small);
    EXPECT_EQ(&again, &first);
    for (const Schedule* other : {&plans.take(tree, small), &plans.take(ring, large)}) plans.give_back(*other);
    plans.give_back(again);
  }
  EXPECT_EQ(to_string(first), expected);
  EXPECT_EQ(plans.made(), 3u);
}

TEST(Plans, AreFewHoweverManyShapesThereAre) {
  Plans plans;
  const Algorithm& ring = *find_algorithm(Kind::allreduce, "ring");
  std::vector<const Schedule*> in_use;
  const auto shape = [](std::size_t count) { return Shape{.rank = 0, .size = 4, .count = count}; };
  for (std::size_t count = 1; count <= 1000; ++count) plans.give_back(plans.take(ring, shape(count)));
  EXPECT_LE(plans.bytes(), 32u << 10);
  EXPECT_EQ(&plans.take(ring, shape(1000)), &plans.take(ring, shape(1000))) << "the latest are there";
  for (std::size_t count = 1; count <= 100; ++count) in_use.push_back(&plans.take(ring, shape(count)));
  for (std::size_t count = 1; count <= 100; ++count)
    EXPECT_EQ(to_string(*in_use[count - 1]), to_string(ring.plan(shape(count)))) << "nobody's is replaced";
  for (const Schedule* plan : in_use) plans.give_back(*plan);
  EXPECT_LE(plans.bytes(), 32u << 10);
}

TEST(Plans, AreBoundedForTheWholeProcess) {
  const Algorithm& ring = *find_algorithm(Kind::allreduce, "ring");
  const auto shape = [](std::size_t count) { return Shape{.rank = 0, .size = 4, .count = count}; };
  std::deque<Plans> communicators(2 * Plans::most_kept_in_process / Plans::most_kept);
  for (Plans& plans : communicators)
    for (std::size_t count = 1; count <= Plans::most_kept; ++count) plans.give_back(plans.take(ring, shape(count)));
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const Plans& plans : communicators) sum += plans.bytes();
    return sum;
  };
  EXPECT_GT(bytes(), 4u << 20);
  EXPECT_LE(bytes(), 6u << 20);
  Plans& last = communicators.back();
  EXPECT_EQ(last.bytes(), 0u) << "there was no room left";
  const Schedule &one = last.take(ring, shape(1)), &other = last.take(ring, shape(2));
  EXPECT_EQ(to_string(one), to_string(ring.plan(shape(1)))) << "but what is played is there";
  EXPECT_EQ(to_string(other), to_string(ring.plan(shape(2))));
  last.give_back(one);
  last.give_back(other);
  EXPECT_EQ(last.bytes(), 0u);
  communicators.pop_front();  // one communicator ends, and others may use its share
  last.give_back(last.take(ring, shape(1)));
  EXPECT_EQ(last.bytes(), sizeof(Schedule));
}

TEST(Plans, OfVariableFormsAreMadeAnewInOnePlace) {
  Plans plans;
  const Algorithm& ring = *find_algorithm(Kind::allgather, "ring");
  const Schedule& kept = plans.take(ring, {.rank = 0, .size = 2, .count = 1});
  plans.give_back(kept);
  for (std::size_t i = 1; i <= 100; ++i) {
    const BlockTable table(std::vector<std::size_t>{i, 2 * i});
    const Schedule& plan = plans.take(ring, {.rank = 0, .size = 2, .out_blocks = &table});
    EXPECT_EQ(tally(plan).elements, i);
    plans.give_back(plan);
  }
  EXPECT_EQ(&plans.take(ring, {.rank = 0, .size = 2, .count = 1}), &kept);
  EXPECT_EQ(plans.bytes(), 2 * sizeof(Schedule));
}

// A schedule with all of its steps would not fit into 64 KiB for any of these.
TEST(Footprint, IsAFewHundredBytesWhereAScheduleHadMegabytes) {
  const Hosts hosts = hosts_for(65536, false);
  for (const auto& [kind, algorithm] : {std::pair(Kind::allreduce, "ring"), std::pair(Kind::alltoall, "bruck"),
                                        std::pair(Kind::alltoall, "hierarchical")}) {
    const Shape shape{.rank = 12345, .size = 65536, .count = 1 << 16, .hosts = &hosts};
    const Footprint found = footprint_of(*find_algorithm(kind, algorithm), shape);
    EXPECT_LE(found.first_bytes, most_bytes) << algorithm;
    EXPECT_LE(found.most_bytes, 2 * most_bytes) << algorithm;
    EXPECT_GT(found.tally.steps, 0u);
  }
  const Schedule bruck =
      find_algorithm(Kind::alltoall, "bruck")->plan({.rank = 12345, .size = 65536, .count = 4, .hosts = &hosts});
  EXPECT_EQ(tally(bruck).steps, 2u + 4u * 16u + 2u) << "packed by strided copies: 4 steps for each of 16 bits";
}

}  // namespace
}  // namespace tutti::testing
