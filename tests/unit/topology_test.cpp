// Topology: placement of ranks, for a job and for groups of it; hosts are counted in any order of ranks.
#include "tutti/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "collectives/bootstrap/racks.hpp"
#include "tests/support/caught.hpp"

namespace tutti {
namespace {

Topology on_hosts(const std::vector<std::string>& hosts) {
  std::vector<Place> places;
  for (const std::string& host : hosts) places.push_back({.host = host, .host_name = "name of " + host});
  return Topology(places);
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
  EXPECT_EQ(group.of(last)[0].host, "b");  // a group of a group
  EXPECT_FALSE(group.hosts().is_cartesian());
  const std::vector<int> even{0, 1};
  EXPECT_TRUE(job.of(even).hosts().is_cartesian());
}

// ---- racks --------------------------------------------------------------------------------------

Topology in_racks(const std::vector<std::pair<std::string, std::string>>& hosts) {
  std::vector<Place> places;
  for (const auto& [host, rack] : hosts) places.push_back({.host = host, .rack = rack});
  return Topology(places);
}

TEST(Topology, GroupsHostsByTheirRacks) {
  const Topology job = in_racks({{"a", "r1"}, {"a", "r1"}, {"b", "r2"}, {"c", "r1"}});
  EXPECT_EQ(job[2].rack, "r2");
  ASSERT_NE(job.hosts().above(), nullptr);
  EXPECT_EQ(listed(job.hosts().above()->host()), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(job.hosts().above()->above(), nullptr);
}

TEST(Topology, GroupsRacksByWhatIsAroundThem) {
  const Topology job = in_racks({{"a", "p1/r1"}, {"b", "p2/r1"}, {"c", "p1/r2"}, {"d", "p2/r1"}});
  const Hosts* const racks = job.hosts().above();
  ASSERT_NE(racks, nullptr);
  EXPECT_EQ(listed(racks->host()), (std::vector<int>{0, 1, 2, 1})) << "racks of one name in two pods are two";
  ASSERT_NE(racks->above(), nullptr);
  EXPECT_EQ(listed(racks->above()->host()), (std::vector<int>{0, 1, 0}));
}

TEST(Topology, HasRacksOnlyWhereEveryHostNamesOne) {
  EXPECT_EQ(on_hosts({"a", "b"}).hosts().above(), nullptr);
  EXPECT_EQ(in_racks({{"a", "r1"}, {"b", ""}, {"c", "r2"}}).hosts().above(), nullptr);
  EXPECT_EQ(in_racks({{"a", "r1"}, {"b", "r1"}}).hosts().above(), nullptr) << "one rack";
  EXPECT_EQ(in_racks({{"a", "r1"}, {"b", "r,2"}}).hosts().above(), nullptr) << "what is no name is none";
  const Topology mixed = in_racks({{"a", "r1"}, {"b", "p/r2"}, {"c", "p/r2"}});
  ASSERT_NE(mixed.hosts().above(), nullptr);
  EXPECT_EQ(mixed.hosts().above()->count(), 2);
  EXPECT_EQ(mixed.hosts().above()->above(), nullptr) << "as many levels as all have";
}

TEST(Topology, OfAGroupKeepsItsRacks) {
  const Topology job = in_racks({{"a", "r1"}, {"b", "r2"}, {"c", "r2"}, {"d", "r1"}});
  const std::vector<int> members{3, 2, 0}, in_one{1, 2};
  const Topology group = job.of(members);
  ASSERT_NE(group.hosts().above(), nullptr);
  EXPECT_EQ(listed(group.hosts().above()->host()), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(group[1].rack, "r2");
  EXPECT_EQ(job.of(in_one).hosts().above(), nullptr);
}

launchers::Environment environment_of(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(OwnRack, IsTheSettingElseWhatSlurmSays) {
  const auto said = [](const std::string& address, const std::string& pattern) {
    return launchers::own_rack(
        {}, environment_of({{"SLURM_TOPOLOGY_ADDR", address}, {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}}));
  };
  EXPECT_EQ(launchers::own_rack({}, environment_of({})), "");
  EXPECT_EQ(said("s0.s2.node5", "switch.switch.node"), "s0/s2");
  EXPECT_EQ(said("b1.n5", "block.node"), "b1");
  EXPECT_EQ(said("node5", "node"), "") << "a flat network";
  EXPECT_EQ(said("s0.node.5", "switch.node"), "") << "a dot in a name";
  EXPECT_EQ(said("s0..node", "switch.switch.node"), "");
  EXPECT_EQ(said("s0.s[1-2].node", "switch.switch.node"), "");
  EXPECT_EQ(said("s0.node5", ""), "");
  Settings settings;
  settings.rack = "pod1/rack-7.b";
  EXPECT_EQ(launchers::own_rack(settings, environment_of({{"SLURM_TOPOLOGY_ADDR", "s0.n"},
                                                          {"SLURM_TOPOLOGY_ADDR_PATTERN", "switch.node"}})),
            "pod1/rack-7.b");
}

TEST(OwnRack, IsRefusedWhereItIsNoName) {
  for (const char* const rack : {"/", "a/", "/a", "a//b", "a b", "a,b", "a\n", "1/2/3/4/5/6/7/8/9"}) {
    Settings settings;
    settings.rack = rack;
    EXPECT_THAT(testing::caught([&] { launchers::own_rack(settings, environment_of({})); }).what(),
                ::testing::HasSubstr("rack7, or pod1/rack7"))
        << rack;
  }
  Settings settings;
  settings.rack = std::string(201, 'a');
  EXPECT_EQ(testing::caught([&] { launchers::own_rack(settings, environment_of({})); }).code(), Code::invalid);
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
