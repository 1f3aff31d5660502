// Hosts in racks, racks in pods: every algorithm that uses the hosts, in the simulator, and what it sends across racks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "tests/support/simulator.hpp"
#include "tests/support/thinned.hpp"
#include "tutti/topology.hpp"

namespace tutti::testing {
namespace {

using Numbers = std::vector<int>;

/// The placement of ranks on hosts, of hosts in racks, and of racks in pods.
struct Site {
  Numbers host;                // the host of each rank
  std::vector<Numbers> above;  // the rack of each rank, then its pod
};

/// racks[h] is the rack of host h, and pods[r] the pod of rack r.
Site site(const Numbers& host, const Numbers& racks, const Numbers& pods = {}) {
  Site made{host, {{}}};
  for (const int one : host) made.above[0].push_back(racks[static_cast<std::size_t>(one)]);
  if (pods.empty()) return made;
  made.above.emplace_back();
  for (const int rack : made.above[0]) made.above[1].push_back(pods[static_cast<std::size_t>(rack)]);
  return made;
}

Numbers blocks(const Numbers& sizes) {
  Numbers numbers;
  for (std::size_t i = 0; i < sizes.size(); ++i) numbers.insert(numbers.end(), static_cast<std::size_t>(sizes[i]), i);
  return numbers;
}

Numbers in_turns(int size, int count) {
  Numbers numbers;
  for (int i = 0; i < size; ++i) numbers.push_back(i % count);
  return numbers;
}

std::map<std::string, Site> sites() {
  return {
      {"two racks of two hosts", site(blocks({2, 2, 2, 2}), blocks({2, 2}))},
      {"three racks of one, two and three hosts", site(blocks({1, 1, 1, 1, 1, 1}), blocks({1, 2, 3}))},
      {"unequal hosts in unequal racks", site(blocks({3, 1, 2, 2, 1}), {1, 0, 1, 1, 0})},
      {"ranks and hosts in turns", site(in_turns(12, 6), in_turns(6, 3))},
      {"hosts in turns", site(blocks({2, 2, 2, 2, 2}), in_turns(5, 2))},
      {"every host in a rack of its own", site(blocks({2, 1, 2}), {0, 1, 2})},
      {"a rack of one host among racks of four", site(blocks({1, 2, 1, 1, 1, 1, 1, 1, 2}), blocks({4, 1, 4}))},
      {"eight racks", site(blocks(Numbers(16, 1)), in_turns(16, 8))},
      {"two pods of two racks", site(blocks(Numbers(8, 2)), blocks({2, 2, 2, 2}), blocks({2, 2}))},
      {"pods in turns, of unequal racks", site(blocks(Numbers(9, 1)), {0, 1, 2, 0, 1, 2, 3, 3, 0}, {0, 1, 0, 1})},
  };
}

/// Up to 24 ranks on any of 12 hosts, these in any of 5 racks, and these in any of 3 pods.
Site anywhere(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](std::size_t size, unsigned from) {
    Numbers numbers;
    for (std::size_t i = 0; i < size; ++i) numbers.push_back(static_cast<int>(random() % from));
    return numbers;
  };
  return site(draw(1 + random() % 24, 1 + random() % 12), draw(12, 1 + random() % 5), draw(5, 1 + random() % 3));
}

Trial trial_of(const Algorithm& algorithm, const Site& site, std::size_t count) {
  return {.kind = algorithm.kind,
          .size = static_cast<int>(site.host.size()),
          .count = count,
          .lanes = algorithm.lanes,
          .host = site.host,
          .above = site.above};
}

std::string text(const Cost& cost, const Crossing& crossing) {
  return std::to_string(cost.rounds) + " rounds, " + std::to_string(cost.elements) + " elements, " +
         std::to_string(crossing.total) + " crossing, " + std::to_string(crossing.most) + " from one host";
}

bool all_equal(const Hosts& hosts) {
  return hosts.is_cartesian() && (hosts.above() == nullptr || all_equal(*hosts.above()));
}

/// Returns what went wrong; empty if nothing did.
std::string play(const Algorithm& algorithm, const Trial& trial) {
  const Outcome played = simulate(trial, algorithm.plan);
  const std::string where = "count " + std::to_string(trial.count) + ", root " + std::to_string(trial.root) + ", way " +
                            std::to_string(trial.way) + ": ";
  if (!played.defect.empty()) return where + played.defect;
  if (!trial.in_counts.empty() || !trial.out_counts.empty()) return {};
  const Shapes shapes(trial);
  const Cost cost = cost_of(algorithm, shapes[0]);
  const Crossing crossing = crossing_of(algorithm, shapes[0]);
  const bool is_full = trial.count >= static_cast<std::size_t>(trial.size) || trial.kind == Kind::barrier;
  const bool is_exact = is_full && all_equal(*shapes[0].hosts);
  const bool rounds_agree = is_exact ? played.cost.rounds == cost.rounds : played.cost.rounds <= cost.rounds;
  if (rounds_agree && played.cost.elements == cost.elements && played.crossing == crossing) return {};
  return where + "it takes " + text(played.cost, played.crossing) + ", the formulas say " + text(cost, crossing);
}

bool has_root(Kind kind) { return kind == Kind::reduce || kind == Kind::broadcast; }

class EveryAcrossRacks : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryAcrossRacks, DoesWhatItSays) {
  const Algorithm& algorithm = *GetParam();
  for (const auto& [name, site] : sites()) {
    const std::size_t p = site.host.size();
    for (const std::size_t count : std::set<std::size_t>{0, 1, p - 1, p, 40, 97})
      for (int root = 0; root < (has_root(algorithm.kind) ? static_cast<int>(p) : 1); ++root)
        for (const std::uint64_t in_place : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x5555555555555555}}) {
          Trial trial = trial_of(algorithm, site, count);
          trial.root = root;
          const bool moves = algorithm.kind == Kind::alltoall || algorithm.kind == Kind::broadcast;
          if (in_place != 0 && (moves || (has_root(algorithm.kind) && in_place != ~std::uint64_t{0}))) continue;
          trial.in_place = in_place;
          const Shapes shapes(trial);
          if (algorithm.fits != nullptr && !algorithm.fits(shapes[0])) continue;
          for (trial.way = 0; trial.way < ways_of(algorithm, shapes[0]); ++trial.way) {
            ASSERT_EQ(play(algorithm, trial), "") << name;
          }
        }
  }
}

TEST_P(EveryAcrossRacks, DoesWhatItSaysWhereverHostsAre) {
  const Algorithm& algorithm = *GetParam();
  for (unsigned seed = 0; seed < (thinned ? 5 : 40); ++seed) {
    const Site site = anywhere(seed);
    Trial trial = trial_of(algorithm, site, 7 + seed * 3);
    trial.root = has_root(algorithm.kind) ? static_cast<int>(seed % site.host.size()) : 0;
    const Shapes shapes(trial);
    if (algorithm.fits != nullptr && !algorithm.fits(shapes[0])) continue;
    for (trial.way = 0; trial.way < ways_of(algorithm, shapes[0]); ++trial.way) {
      ASSERT_EQ(play(algorithm, trial), "") << "seed " << seed;
    }
  }
}

TEST_P(EveryAcrossRacks, PlansTheFormWithCountsPerRank) {
  const Algorithm& algorithm = *GetParam();
  if (!algorithm.variable) return;
  for (const auto& [name, site] : sites()) {
    std::vector<std::size_t> uneven;
    for (std::size_t i = 0; i < site.host.size(); ++i) uneven.push_back((i * 7 + site.host.size()) % 5);
    Trial trial = trial_of(algorithm, site, 0);
    auto& mine = algorithm.kind == Kind::reduce_scatter ? trial.in_counts : trial.out_counts;
    mine.assign(site.host.size(), uneven);
    ASSERT_EQ(play(algorithm, trial), "") << name;
  }
}

std::vector<const Algorithm*> that_know_hosts() {
  std::vector<const Algorithm*> found;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->crossing != nullptr) found.push_back(algorithm);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryAcrossRacks, ::testing::ValuesIn(that_know_hosts()),
                         [](const ::testing::TestParamInfo<const Algorithm*>& tested) {
                           return std::string(name(tested.param->kind)) + "_" + std::string(tested.param->name);
                         });

// ---- what crosses racks -------------------------------------------------------------------------

Outcome played(Kind kind, std::string_view algorithm, const Site& site, std::size_t count = 2400) {
  const Algorithm& found = *find_algorithm(kind, algorithm);
  const Outcome outcome = simulate(trial_of(found, site, count), found.plan);
  EXPECT_EQ(outcome.defect, "");
  return outcome;
}

// Four racks of three hosts of two ranks, where hosts follow one another by racks, and where they alternate.
Site together() { return site(blocks(Numbers(12, 2)), blocks(Numbers(4, 3))); }
Site apart() { return site(blocks(Numbers(12, 2)), in_turns(12, 4)); }

TEST(AcrossRacks, ABroadcastEntersEveryRackOnce) {
  for (const Site& hosts : {together(), apart()})
    for (const char* const name : {"hierarchical", "hierarchical_chain"}) {
      const Outcome outcome = played(Kind::broadcast, name, hosts);
      EXPECT_EQ(outcome.rack_messages, 3u) << name;
      EXPECT_EQ(outcome.racks.total, 3u * 2400u) << name;
      EXPECT_EQ(outcome.crossing_messages, 11u) << name;  // one for each other host
    }
  EXPECT_EQ(played(Kind::broadcast, "hierarchical_chain", apart()).racks.most, 2400u);
}

TEST(AcrossRacks, AReduceLeavesEveryRackOnce) {
  for (const Site& hosts : {together(), apart()})
    for (const char* const name : {"hierarchical", "hierarchical_chain"}) {
      const Outcome outcome = played(Kind::reduce, name, hosts);
      EXPECT_EQ(outcome.rack_messages, 3u) << name;
      EXPECT_EQ(outcome.racks.most, 2400u) << name;
      EXPECT_EQ(outcome.crossing_messages, 11u) << name;
    }
}

TEST(AcrossRacks, AnAllreduceSendsTheLeastFromEveryRackAndEveryHost) {
  for (const Site& hosts : {together(), apart()})
    for (const char* const name : {"hierarchical", "hierarchical_halving"}) {
      const Outcome outcome = played(Kind::allreduce, name, hosts);
      EXPECT_EQ(outcome.racks.total, 2u * 3u * 2400u) << name;           // 2n
      EXPECT_EQ(outcome.racks.most, 2u * 2400u * 3u / 4u) << name;       // 2n (R-1) / R
      EXPECT_EQ(outcome.crossing.most, 2u * 2400u * 11u / 12u) << name;  // 2n (H-1) / H, as without racks
    }
}

TEST(AcrossRacks, AnAllreduceSendsLessThanOneThatDoesNotKnowThem) {
  Site unknown = apart();
  const std::vector<Numbers> racks = std::exchange(unknown.above, {});
  const Algorithm& flat = *find_algorithm(Kind::allreduce, "hierarchical");
  Trial trial = trial_of(flat, unknown, 2400);
  trial.above = racks;  // crossings are counted, but plans do not use racks
  const Hosts hosts(unknown.host, trial.size);
  const Outcome outcome = simulate(trial, [&](const Shape& s) {
    Shape without = s;
    without.hosts = &hosts;
    return flat.plan(without);
  });
  EXPECT_EQ(outcome.defect, "");
  EXPECT_EQ(outcome.racks.total, 2u * 11u * 2400u);  // every message between hosts
  EXPECT_EQ(outcome.cost.rounds, 2 * (1 + 11));
  EXPECT_EQ(played(Kind::allreduce, "hierarchical", apart()).cost.rounds, 2 * (1 + 2 + 3));
}

TEST(AcrossRacks, LeadersAloneSendBetweenRacks) {
  for (const Site& hosts : {together(), apart()}) {
    EXPECT_EQ(played(Kind::allreduce, "tree_of_hosts", hosts).rack_messages, 4u * 2u);
    EXPECT_EQ(played(Kind::barrier, "hierarchical", hosts).rack_messages, 4u * 2u);
  }
}

TEST(AcrossRacks, EveryBlockEntersOrLeavesEveryRackOnce) {
  for (const Site& hosts : {together(), apart()})
    for (const Kind kind : {Kind::allgather, Kind::reduce_scatter}) {
      const Outcome outcome = played(kind, "hierarchical", hosts, 5);
      EXPECT_EQ(outcome.racks.total, 24u * 3u * 5u);
      EXPECT_EQ(outcome.racks.most, (24u - 6u) * 5u);
      EXPECT_EQ(outcome.cost.rounds, 3 + 2 + 1);
      EXPECT_EQ(outcome.crossing.most, (24u - 2u) * 5u) << "as without racks";
    }
}

// ---- the table ----------------------------------------------------------------------------------

TEST(Racks, AreATableOfHosts) {
  const Site made = site(blocks({2, 1, 1, 2, 1}), {5, 2, 5, 2, 2});
  const Hosts hosts(made.host, 7, made.above);
  ASSERT_NE(hosts.above(), nullptr);
  const Hosts& racks = *hosts.above();
  EXPECT_EQ(racks.count(), 2);
  EXPECT_EQ(Numbers(racks[0].begin(), racks[0].end()), (Numbers{0, 2}));
  EXPECT_EQ(Numbers(racks[1].begin(), racks[1].end()), (Numbers{1, 3, 4}));
  EXPECT_EQ(racks.above(), nullptr);
  EXPECT_TRUE(hosts.share_a_rack(1, 4));
  EXPECT_FALSE(hosts.share_a_rack(0, 1));
  Numbers order, places;
  for (int i = 0; i < 5; ++i) {
    order.push_back(hosts.in_order(i));
    places.push_back(hosts.place_of(i));
  }
  EXPECT_EQ(order, (Numbers{0, 2, 1, 3, 4}));
  EXPECT_EQ(places, (Numbers{0, 2, 1, 3, 4}));
}

TEST(Racks, OfAPodFollowOneAnotherInOrder) {
  const Site made = site(blocks(Numbers(6, 1)), {0, 1, 2, 3, 0, 2}, {0, 1, 1, 0});
  const Hosts hosts(made.host, 6, made.above);
  ASSERT_NE(hosts.above()->above(), nullptr);
  EXPECT_EQ(hosts.above()->above()->count(), 2);
  Numbers order;
  for (int i = 0; i < 6; ++i) order.push_back(hosts.in_order(i));
  EXPECT_EQ(order, (Numbers{0, 4, 3, 1, 2, 5}));
}

TEST(Racks, AreNoLevelWhereThereIsOne) {
  const Site one_rack = site(blocks({2, 2}), {3, 3});
  EXPECT_EQ(Hosts(one_rack.host, 4, one_rack.above).above(), nullptr);
  const Hosts hosts(one_rack.host, 4);
  EXPECT_EQ(hosts.above(), nullptr);
  EXPECT_TRUE(hosts.share_a_rack(0, 1));
  EXPECT_EQ(hosts.in_order(1), 1);
  EXPECT_EQ(hosts.place_of(1), 1);
  const Site one_pod = site(blocks({1, 1, 1}), {0, 1, 0}, {0, 0});
  EXPECT_EQ(Hosts(one_pod.host, 3, one_pod.above).above()->above(), nullptr);
}

}  // namespace
}  // namespace tutti::testing
