// Lanes that take different paths ("ways"): kept apart, counted, and distributed so that all ranks have equal work.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "collectives/plan/footprint.hpp"
#include "collectives/plan/plans.hpp"
#include "tutti/topology.hpp"

namespace tutti::testing {
namespace {

Hosts hosts_of_equal_size(int count, int ranks) {
  std::vector<int> host;
  for (int rank = 0; rank < count * ranks; ++rank) host.push_back(rank / ranks);
  return Hosts(host, count * ranks);
}

/// Returns the number of messages to other hosts by rank, in lanes that take these paths.
std::map<int, int> crossings(const Algorithm& algorithm, const Hosts& hosts, int root, std::vector<int> ways) {
  std::map<int, int> messages;
  const int size = static_cast<int>(hosts.host().size());
  for (const int way : ways)
    for (int rank = 0; rank < size; ++rank) {
      const Shape shape{.rank = rank, .size = size, .count = 8, .root = root, .way = way, .hosts = &hosts};
      for (const auto& round : all_rounds(algorithm.plan(shape)))
        for (const Step& step : round)
          if (step.verb == Step::Verb::send && hosts.host_of(step.peer) != hosts.host_of(rank)) ++messages[rank];
    }
  return messages;
}

TEST(Ways, HavePlansOfTheirOwn) {
  Plans plans;
  const Algorithm& tree = *find_algorithm(Kind::broadcast, "double_tree");
  const Shape one{.rank = 3, .size = 8, .count = 2}, other{.rank = 3, .size = 8, .count = 2, .way = 1};
  const Schedule &first = plans.take(tree, one), &second = plans.take(tree, other);
  EXPECT_NE(to_string(first), to_string(second));
  EXPECT_EQ(to_string(second), to_string(tree.plan(other)));
  EXPECT_EQ(&plans.take(tree, one), &first);
  EXPECT_EQ(&plans.take(tree, other), &second);
  EXPECT_EQ(plans.made(), 2u);
}

TEST(Ways, AreAllCounted) {
  const Algorithm& tree = *find_algorithm(Kind::broadcast, "double_tree");
  constexpr std::size_t lane = 1 << 18, lanes = 5;
  Shape shape{.rank = 3, .size = 8, .count = lane * (lanes - 1) + 1000};
  const Footprint found = footprint_of(tree, shape);
  ASSERT_EQ(found.lanes.number, lanes);
  Tally sum;
  const std::size_t whole = shape.count;
  for (std::size_t i = 0; i < lanes; ++i) {
    shape.way = static_cast<int>(i % 2);
    shape.count = std::min(found.lanes.count, whole - i * found.lanes.count);
    const Tally one = tally(tree.plan(shape));
    sum.messages += one.messages;
    sum.elements += one.elements;
  }
  EXPECT_EQ(found.tally.messages, sum.messages);
  EXPECT_EQ(found.tally.elements, sum.elements);
}

// The reason for two trees: a rank that forwards in one of them is a leaf of the other.
TEST(DoubleTree, NobodyForwardsInBothTrees) {
  for (int size = 2; size <= 70; ++size) {
    const Hosts hosts = hosts_of_equal_size(size, 1);
    for (const int root : {0, size / 2}) {
      for (const auto& [rank, messages] :
           crossings(*find_algorithm(Kind::broadcast, "double_tree"), hosts, root, {0, 1}))
        EXPECT_LE(messages, 2) << size << " hosts, rank " << rank;
      for (const auto& [rank, messages] : crossings(*find_algorithm(Kind::reduce, "double_tree"), hosts, root, {0, 1}))
        EXPECT_LE(messages, 2) << size << " hosts, rank " << rank;
    }
    for (const auto& [rank, messages] : crossings(*find_algorithm(Kind::allreduce, "double_tree"), hosts, 0, {0, 1}))
      EXPECT_LE(messages, 4) << size << " hosts, rank " << rank;
  }
}

TEST(DoubleTree, TheRanksOfAHostTalkInTurns) {
  const Hosts hosts = hosts_of_equal_size(6, 4);
  for (const Kind kind : {Kind::broadcast, Kind::reduce, Kind::allreduce}) {
    const Algorithm& tree = *find_algorithm(kind, "double_tree");
    ASSERT_EQ(tree.ways({.size = 24, .hosts = &hosts}), 8);
    std::set<int> who;
    for (int way = 0; way < 8; way += 2) {
      const auto messages = crossings(tree, hosts, 5, {way, way + 1});
      std::map<int, int> by_host;
      for (const auto& [rank, number] : messages) {
        EXPECT_TRUE(who.insert(rank).second) << name(kind) << ": rank " << rank << " has talked in another lane";
        ++by_host[hosts.host_of(rank)];
      }
      for (const auto& [host, ranks] : by_host) EXPECT_EQ(ranks, 1) << name(kind) << ", host " << host;
    }
  }
}

}  // namespace
}  // namespace tutti::testing
