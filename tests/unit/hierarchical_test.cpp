// Every algorithm that uses the hosts, in the simulator: equal and unequal hosts, ranks in blocks and in turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "tests/support/simulator.hpp"
#include "tests/support/thinned.hpp"
#include "tutti/topology.hpp"

namespace tutti::testing {
namespace {

using Layout = std::vector<int>;

constexpr int most_ranks = thinned ? 13 : 33;
constexpr std::uint64_t nobody = 0, everybody = ~std::uint64_t{0}, every_other = 0x5555555555555555;

template <typename HostOf>
Layout layout(int p, HostOf host_of) {
  Layout hosts;
  for (int rank = 0; rank < p; ++rank) hosts.push_back(host_of(rank));
  return hosts;
}

/// Ranks in blocks or in turns, with and without a remainder; a host with one rank; scattered; one rank per host.
std::set<Layout> layouts(int p) {
  std::set<Layout> all{layout(p, [](int) { return 0; }), layout(p, [](int r) { return r; })};
  for (const int n : {2, 3, 4, 8}) {
    all.insert(layout(p, [&](int r) { return r / n; }));
    all.insert(layout(p, [&](int r) { return r % n; }));
  }
  all.insert(layout(p, [&](int r) { return r == p - 1 ? 1 : 0; }));
  all.insert(layout(p, [&](int r) { return r == 0 ? 7 : 3; }));
  all.insert(layout(p, [&](int r) { return (r * 7 + r / 3) % 5 % 3; }));
  return all;
}

bool is_rooted(Kind kind) { return kind == Kind::reduce || kind == Kind::broadcast; }

std::vector<int> roots(Kind kind, int p) {
  if (!is_rooted(kind)) return {0};
  if (p > 8) return {0, 1, p / 2, p - 1};
  return layout(p, [](int r) { return r; });
}

std::vector<std::uint64_t> placements(Kind kind) {
  if (kind == Kind::alltoall || kind == Kind::broadcast || kind == Kind::barrier) return {nobody};
  if (is_rooted(kind)) return {nobody, everybody};
  return {nobody, everybody, every_other};
}

std::string text(const Trial& t) {
  std::string hosts;
  for (const int host : t.host) hosts += (hosts.empty() ? "" : " ") + std::to_string(host);
  return std::to_string(t.size) + " ranks on hosts " + hosts + ", count " + std::to_string(t.count) + ", root " +
         std::to_string(t.root) + ", way " + std::to_string(t.way) + ", placement " + std::to_string(t.in_place % 4) +
         ": ";
}

std::string text(const Cost& cost, const Crossing& crossing) {
  return std::to_string(cost.rounds) + " rounds, " + std::to_string(cost.elements) + " elements, " +
         std::to_string(crossing.total) + " crossing, " + std::to_string(crossing.most) + " from one host";
}

/// Returns what went wrong; empty if nothing did.
std::string play(const Algorithm& algorithm, const Trial& trial) {
  const Outcome played = simulate(trial, algorithm.plan);
  if (!played.defect.empty()) return text(trial) + played.defect;
  if (!trial.in_counts.empty() || !trial.out_counts.empty()) return {};
  const Shapes shapes(trial);
  const Shape& shape = shapes[0];
  const Cost cost = cost_of(algorithm, shape);
  const Crossing crossing = crossing_of(algorithm, shape);
  const bool is_full = trial.count >= static_cast<std::size_t>(trial.size) || trial.kind == Kind::barrier;
  const bool is_exact = is_full && Hosts(trial.host, trial.size).is_cartesian();
  const bool rounds_agree = is_exact ? played.cost.rounds == cost.rounds : played.cost.rounds <= cost.rounds;
  if (rounds_agree && played.cost.elements == cost.elements && played.crossing == crossing) return {};
  return text(trial) + "it takes " + text(played.cost, played.crossing) + ", the formulas say " + text(cost, crossing);
}

std::string play_all_ways(const Algorithm& algorithm, Trial trial) {
  const int ways = ways_of(algorithm, Shapes(trial)[0]);
  if (ways < 1 || ways > most_ways) return text(trial) + std::to_string(ways) + " ways";
  std::string wrong;
  for (trial.way = 0; trial.way < ways && wrong.empty(); ++trial.way) wrong = play(algorithm, trial);
  return wrong;
}

bool fits(const Algorithm& algorithm, const Trial& trial) {
  return algorithm.fits == nullptr || algorithm.fits(Shapes(trial)[0]);
}

bool is_played(int p) { return p <= 12 || p % 8 == 0 || p >= most_ranks - 1 || p == 17; }

class EveryHierarchical : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryHierarchical, DoesWhatItSaysAndCrossesNoMoreThanItSays) {
  const Algorithm& algorithm = *GetParam();
  for (int p = 1; p <= most_ranks; ++p) {
    if (!is_played(p)) continue;
    const auto n = static_cast<std::size_t>(p);
    for (const Layout& hosts : layouts(p))
      for (const std::size_t count : std::set<std::size_t>{0, 1, n - 1, n, n + 1, 40})
        for (const int root : roots(algorithm.kind, p))
          for (const std::uint64_t in_place : placements(algorithm.kind)) {
            const Trial trial{.kind = algorithm.kind,
                              .size = p,
                              .count = count,
                              .root = root,
                              .in_place = in_place,
                              .lanes = algorithm.lanes,
                              .host = hosts};
            if (fits(algorithm, trial)) {
              ASSERT_EQ(play_all_ways(algorithm, trial), "");
            }
          }
  }
}

class EveryVariableHierarchical : public EveryHierarchical {};

TEST_P(EveryVariableHierarchical, PlansTheFormWithCountsPerRank) {
  const Algorithm& algorithm = *GetParam();
  for (int p = 1; p <= most_ranks; ++p) {
    if (!is_played(p)) continue;
    std::vector<std::size_t> uneven, growing, lone(static_cast<std::size_t>(p));
    for (std::size_t i = 0; i < static_cast<std::size_t>(p); ++i) {
      uneven.push_back((i * 7 + static_cast<std::size_t>(p)) % 5);
      growing.push_back(i + 1);
    }
    lone.back() = 11;
    for (const Layout& hosts : layouts(p))
      for (const auto& counts : {uneven, growing, lone})
        for (const std::uint64_t in_place : placements(algorithm.kind)) {
          Trial trial{.kind = algorithm.kind, .size = p, .in_place = in_place, .lanes = algorithm.lanes, .host = hosts};
          auto& mine = algorithm.kind == Kind::reduce_scatter ? trial.in_counts : trial.out_counts;
          mine.assign(static_cast<std::size_t>(p), counts);
          ASSERT_EQ(play(algorithm, trial), "");
        }
  }
}

std::vector<const Algorithm*> hierarchical_ones(bool variable) {
  std::vector<const Algorithm*> found;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->crossing != nullptr && (algorithm->variable || !variable)) found.push_back(algorithm);
  return found;
}

std::string test_name(const ::testing::TestParamInfo<const Algorithm*>& tested) {
  return std::string(name(tested.param->kind)) + "_" + std::string(tested.param->name);
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryHierarchical, ::testing::ValuesIn(hierarchical_ones(false)), test_name);
INSTANTIATE_TEST_SUITE_P(Catalog, EveryVariableHierarchical, ::testing::ValuesIn(hierarchical_ones(true)), test_name);

TEST(Hierarchical, EveryKindThatMovesDataToAllOrFromAllHasAFormForAnyHosts) {
  for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::allgather, Kind::reduce_scatter,
                          Kind::alltoall, Kind::barrier}) {
    const Algorithm* algorithm = find_algorithm(kind, "hierarchical");
    ASSERT_NE(algorithm, nullptr) << name(kind);
    EXPECT_EQ(algorithm->fits, nullptr) << name(kind);
    EXPECT_NE(algorithm->crossing, nullptr) << name(kind);
  }
}

Trial four_hosts_of_two(Kind kind) {
  return {.kind = kind, .size = 8, .count = 8000, .host = {0, 1, 2, 3, 0, 1, 2, 3}};
}

// The purpose of hierarchical algorithms: with ranks in turns on four hosts, each step of a ring crosses hosts.
TEST(Hierarchical, SendsLessAcrossThanTheRing) {
  const Trial trial = four_hosts_of_two(Kind::allreduce);
  const Outcome flat = simulate(trial, find_algorithm(Kind::allreduce, "ring")->plan);
  const Outcome hierarchical = simulate(trial, find_algorithm(Kind::allreduce, "hierarchical")->plan);
  EXPECT_EQ(flat.crossing.total, 2u * 7u * 8000u);
  EXPECT_EQ(hierarchical.crossing.total, 2u * 3u * 8000u);
  EXPECT_EQ(hierarchical.crossing.most, 2u * 8000u * 3u / 4u);  // 2 n (H-1) / H
}

TEST(Hierarchical, SendsFewerMessagesAcross) {
  const auto crossing = [](Kind kind, const char* algorithm) {
    return simulate(four_hosts_of_two(kind), find_algorithm(kind, algorithm)->plan).crossing_messages;
  };
  EXPECT_EQ(crossing(Kind::alltoall, "linear"), 8u * 6u);
  EXPECT_EQ(crossing(Kind::alltoall, "hierarchical"), 8u * 3u);
  EXPECT_EQ(crossing(Kind::barrier, "dissemination"), 2u * 8u);  // ranks of the third round share a host
  EXPECT_EQ(crossing(Kind::barrier, "hierarchical"), 4u * 2u);
}

// Larger blocks lead to fewer blocks per message and more rounds, so that memory stays bounded.
TEST(Pat, AggregatesWhatFitsIntoAMessage) {
  constexpr int hosts = 13;
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter})
    for (const int ranks : {1, 2})
      for (const auto& [count, rounds] :
           {std::pair(1000u, 2), std::pair(2000u, 2 + 1), std::pair(3000u, 1 + 3), std::pair(9000u, 1 + 3)}) {
        Trial trial{.kind = kind, .size = hosts * ranks, .count = count, .lanes = true};
        const bool in_turns = ranks == 2 && count < 3000;
        trial.host = layout(trial.size, [&](int r) { return in_turns ? r % hosts : r / ranks; });
        const Algorithm& pat = *find_algorithm(kind, "pat");
        ASSERT_EQ(play(pat, trial), "");
        EXPECT_EQ(simulate(trial, pat.plan).cost.rounds, rounds + (ranks > 1 ? 1 : 0)) << count;
      }
}

TEST(Pat, NeedsLittleMemoryForManyHosts) {
  constexpr int size = 4096, ranks = 8;
  const Hosts hosts(layout(size, [](int r) { return r / ranks; }), size);
  const Shape shape{.rank = 1000, .size = size, .count = 4096, .hosts = &hosts};
  constexpr std::size_t message = 16 << 10;
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter}) {
    EXPECT_LE(find_algorithm(kind, "pat")->plan(shape).scratch(), (9 + 4 * ranks) * message) << name(kind);
    EXPECT_EQ(cost_of(*find_algorithm(kind, "pat"), shape).rounds, 1 + 127 + 1) << name(kind);
  }
}

TEST(Hosts, AreNumberedByTheirFirstRanksHoweverTheRanksAlternate) {
  const std::vector<int> given{9, 4, 9, 4, 4, 9, 1};
  const Hosts hosts(given, 7);
  EXPECT_EQ(hosts.count(), 3);  // consecutive ranks on alternating hosts are no new hosts
  EXPECT_EQ(hosts.host_of(3), 1);
  EXPECT_EQ(hosts.index_of(4), 2);
  EXPECT_EQ(std::vector<int>(hosts[0].begin(), hosts[0].end()), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(hosts.across(0), (std::vector<int>{0, 1, 6}));
  EXPECT_EQ(hosts.across(2), (std::vector<int>{5, 4}));
  EXPECT_EQ(hosts.smallest(), 1);
  EXPECT_EQ(hosts.largest(), 3);
  EXPECT_FALSE(hosts.is_cartesian());
  const auto listed = [](std::span<const int> ranks) { return std::vector<int>(ranks.begin(), ranks.end()); };
  EXPECT_EQ(listed(hosts.column(1, 0)), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(listed(hosts.whole_column(0)), (std::vector<int>{0, 2, 5, 1, 3, 4, 6}));
  EXPECT_EQ(hosts.column_begin(1, 0), 3u);
  EXPECT_EQ(hosts.before(2), 6);
}

TEST(Hosts, WithoutAListAreOne) {
  const Hosts hosts({}, 3);
  EXPECT_EQ(hosts.count(), 1);
  EXPECT_EQ(hosts.size_of(0), 3);
  EXPECT_TRUE(hosts.is_cartesian());
}

TEST(Hosts, SixRanksByThreeAreCartesianAndSevenAreNot) {
  EXPECT_TRUE(Hosts(layout(6, [](int r) { return r / 3; }), 6).is_cartesian());
  EXPECT_FALSE(Hosts(layout(7, [](int r) { return r / 3; }), 7).is_cartesian());
}

}  // namespace
}  // namespace tutti::testing
