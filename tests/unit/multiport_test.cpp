// Multiport algorithms: the hosts that their trees reach, and how few rounds they take between hosts.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "collectives/algorithms/multiport.hpp"
#include "collectives/algorithms/postal_tree.hpp"
#include "collectives/model/replay.hpp"
#include "tutti/topology.hpp"

namespace tutti::testing {
namespace {

using pieces::Ports;
using pieces::PostalTree;

TEST(PostalTree, ReachesEveryHostOnceAndFromWhereItSays) {
  for (const int ports : {1, 2, 3, 8})
    for (const int hosts : {1, 2, 3, 9, 10, 64, 100, 1000}) {
      const PostalTree tree(hosts, ports);
      std::set<std::int64_t> reached{0};
      for (std::int64_t label = 0; label < hosts; ++label) {
        PostalTree::Place here;
        tree.each_on_the_way(label, [&](const PostalTree::Place& place) { here = place; });
        ASSERT_EQ(here.label, label);
        tree.each_child(here, [&](const PostalTree::Place& child) {
          EXPECT_TRUE(reached.insert(child.label).second) << child.label;
          EXPECT_EQ(child.parent, label);
          EXPECT_LE(child.units, here.units - PostalTree::travel);
          EXPECT_LT(child.port, ports);
        });
      }
      EXPECT_EQ(reached.size(), static_cast<std::size_t>(hosts)) << ports << " ports";
    }
}

TEST(PostalTree, TakesAsLongAsSendingWhileMessagesTravelWants) {
  // With one port and a delivery time of 5 units, 1 host knows at first. From then on, each unit adds as many hosts as
  // knew 5 units before: 2, 3, 4, 5, 6, 8, 11, ...
  for (const auto& [hosts, units] : {std::pair{1, 0}, {2, 5}, {3, 6}, {6, 9}, {7, 10}, {8, 10}, {9, 11}, {11, 11}})
    EXPECT_EQ(PostalTree(hosts, 1).units(), units) << hosts << " hosts";
  EXPECT_EQ(PostalTree(9, 8).units(), 5) << "all ranks of a host send at once";
}

TEST(Ports, AreAsManyAsAreWorthTheRoundsThatTheySave) {
  const auto found = [](int hosts, int carriers) {
    const Ports ports(hosts, carriers);
    return std::to_string(ports.radix) + " in " + std::to_string(ports.rounds);
  };
  EXPECT_EQ(found(64, 8), "8 in 2");
  EXPECT_EQ(found(16, 8), "16 in 1") << "two messages of a rank take less than another round";
  EXPECT_EQ(found(1000, 8), "32 in 2");
  EXPECT_EQ(found(64, 1), "4 in 3") << "a single rank sends three messages at a time";
  EXPECT_EQ(found(2, 1), "2 in 1");
}

/// Returns the length of the longest chain of messages between hosts; nothing else takes time in this network.
double rounds_between(Kind kind, int count, int ranks) {
  std::vector<int> host;
  for (int rank = 0; rank < count * ranks; ++rank) host.push_back(rank / ranks);
  const Hosts hosts(host, count * ranks);
  model::Network network;
  network[model::Level::between].latency = 1;
  const Shape shape{.size = count * ranks, .count = 1, .hosts = &hosts};
  return model::replay({find_algorithm(kind, "multiport"), shape, 4, {1, 1}}, network).seconds;
}

TEST(Multiport, TakesFewRoundsBetweenHosts) {
  for (const Kind kind : {Kind::barrier, Kind::allreduce, Kind::allgather, Kind::reduce_scatter}) {
    EXPECT_EQ(rounds_between(kind, 64, 8), 2) << name(kind) << ": not 6";
    EXPECT_EQ(rounds_between(kind, 16, 4), 1) << name(kind) << ": four messages of each rank";
    EXPECT_EQ(rounds_between(kind, 64, 1), 3) << name(kind);
    EXPECT_EQ(rounds_between(kind, 1, 8), 0) << name(kind);
  }
  for (const Kind kind : {Kind::broadcast, Kind::reduce}) {
    EXPECT_EQ(rounds_between(kind, 9, 8), 1) << name(kind);
    EXPECT_LE(rounds_between(kind, 1000, 8), 3) << name(kind);
  }
}

}  // namespace
}  // namespace tutti::testing
