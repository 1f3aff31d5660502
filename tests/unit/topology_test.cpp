// Topology: places of ranks, restricted to groups; hosts counted however ranks alternate.
#include "tutti/topology.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Topology on_hosts(const std::vector<std::string>& hosts) {
  std::vector<Place> places;
  for (const std::string& host : hosts) places.push_back({.host = host, .host_name = "name of " + host});
  return Topology(std::move(places));
}

std::vector<int> listed(std::span<const int> ranks) { return {ranks.begin(), ranks.end()}; }

TEST(Topology, CountsDistinctHostsWhenRanksAlternate) {
  EXPECT_EQ(on_hosts({"a", "b", "a", "b", "a"}).hosts().count(), 2);
  EXPECT_EQ(on_hosts({"a", "a", "b"}).hosts().count(), 2);
  EXPECT_EQ(on_hosts({"same"}).hosts().count(), 1);
  EXPECT_EQ(on_hosts({"b", "a", "c", "a", "b", "c"}).hosts().count(), 3);
}

TEST(Topology, TellsWhereEachRankIs) {
  const Topology job({{.host = "id", .host_name = "n1", .numa_node = 1, .gpu_domain = "0000:01:00.0"}, {.host = "id"}});
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job[0].numa_node, 1);
  EXPECT_EQ(job[0].gpu_domain, "0000:01:00.0");
  EXPECT_EQ(job[1].numa_node, -1);
  EXPECT_THROW(job[2], std::out_of_range);
}

TEST(Topology, OfAGroupNumbersRanksAndHostsAnew) {
  const Topology job = on_hosts({"a", "b", "a", "b", "c"});
  const std::vector<int> members{4, 3, 1};
  const Topology group = job.of(members);
  EXPECT_EQ(group.size(), 3);
  EXPECT_EQ(group[0].host, "c");
  EXPECT_EQ(group.hosts().count(), 2);
  EXPECT_EQ(listed(group.host()), (std::vector<int>{0, 1, 1}));
  const std::vector<int> last{2};
  EXPECT_EQ(group.of(last)[0].host, "b");  // of a group of a group
  EXPECT_FALSE(group.hosts().is_cartesian());
  const std::vector<int> even{0, 1};
  EXPECT_TRUE(job.of(even).hosts().is_cartesian());
}

TEST(Topology, LastsAsLongAsAnyCopy) {
  Topology kept;
  {
    const Topology job = on_hosts({"a", "b"});
    kept = job;
  }
  EXPECT_EQ(kept[1].host, "b");
  EXPECT_EQ(listed(kept.host()), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace tutti
