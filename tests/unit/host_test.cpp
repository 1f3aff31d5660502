// The host's identity and the number of usable cores.
#include "transports/core/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace tutti::testing {
namespace {

// A made-up /sys/fs/cgroup.
class CgroupTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_.path() + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  double cores(const std::string& membership) const { return cgroup_cores(membership, folder_.path()); }

 private:
  TemporaryFolder folder_;
};

TEST(HostTest, IdentityIsStableAndCanBeGiven) {
  EXPECT_EQ(host_identity(""), host_identity(""));
  EXPECT_FALSE(host_identity("").empty());
  EXPECT_NE(host_identity("").find('/'), std::string::npos);
  EXPECT_EQ(host_identity("node-a"), "node-a");
  EXPECT_NE(host_identity("node-a"), host_identity("node-b"));
}

TEST(HostTest, HasAName) { EXPECT_FALSE(host_name().empty()); }

TEST(HostTest, CoresAreAtLeastOneAndWithinTheMask) {
  EXPECT_GE(usable_cores(), 1);
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));

  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST_F(CgroupTest, NoQuotaIsInfinite) {
  EXPECT_TRUE(std::isinf(cores("")));
  EXPECT_TRUE(std::isinf(cores("0::/\n")));
  EXPECT_TRUE(std::isinf(cores("nonsense\n::\n3:cpu:relative\n")));
  write("cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(cores("0::/\n")));
}

TEST_F(CgroupTest, Version2TakesTheLeastOfTheAncestors) {
  write("a/cpu.max", "150000 100000");
  write("a/b/cpu.max", "400000 100000");
  write("a/b/c/cpu.max", "max 100000");
  EXPECT_DOUBLE_EQ(cores("0::/a/b/c\n"), 1.5);
  EXPECT_DOUBLE_EQ(cores("0::/a/b\n"), 1.5);
  EXPECT_TRUE(std::isinf(cores("0::/\n")));
  write("cpu.max", "50000 100000");  // a container sees only its own group
  EXPECT_DOUBLE_EQ(cores("0::/a/b/c\n"), 0.5);
}

TEST_F(CgroupTest, Version1) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "300000");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cores("4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"), 3);
  EXPECT_TRUE(std::isinf(cores("5:cpuset:/job\n")));  // the group is not one of the cpu controller
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  EXPECT_TRUE(std::isinf(cores("3:cpu,cpuacct:/job\n")));
}

TEST_F(CgroupTest, Version1InAContainerThatDoesNotSeeItsPath) {
  write("cpu/cpu.cfs_quota_us", "200000");
  write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cores("3:cpu,cpuacct:/docker/0123\n"), 2);
  EXPECT_DOUBLE_EQ(cores("3:cpu:/docker/0123\n"), 2);
}

// A made-up /sys/devices/system/node with two nodes of four cores.
TEST(NumaTest, IsTheNodeThatHasAllCores) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& node, const std::string& list) {
    std::filesystem::create_directories(folder.path() + "/" + node);
    std::ofstream(folder.path() + "/" + node + "/cpulist") << list << '\n';
  };
  write("node0", "0-2,9");
  write("node1", "3-6");
  std::ofstream(folder.path() + "/online") << "0-1\n";
  const auto node_of = [&](std::vector<int> cores) { return numa_node(cores, folder.path()); };
  EXPECT_EQ(node_of({0, 9}), 0);
  EXPECT_EQ(node_of({3, 4, 5, 6}), 1);
  EXPECT_EQ(node_of({2, 3}), -1);  // cores of both nodes
  EXPECT_EQ(node_of({7}), -1);     // a core of neither node
  EXPECT_EQ(node_of({}), -1);
  EXPECT_EQ(numa_node(std::vector<int>{0}, folder.path() + "/missing"), -1);
}

// An invented /sys/devices/system/cpu: two caches of 32 MiB, each of two cores; a core without a cache; a core whose
// fourth entry is another cache; a cache that does not list its cores; and a cache of an implausible size.
TEST(CacheTest, EveryCacheCountsOnce) {
  const TemporaryFolder folder;
  const auto write = [&](int core, const char* level, const char* size, const char* sharers) {
    const std::string cache = folder.path() + "/cpu" + std::to_string(core) + "/cache/index3";
    std::filesystem::create_directories(cache);
    std::ofstream(cache + "/level") << level << '\n';
    std::ofstream(cache + "/size") << size << '\n';
    std::ofstream(cache + "/shared_cpu_list") << sharers << '\n';
  };
  for (const int core : {0, 1, 2, 3}) write(core, "3", "32768K", core < 2 ? "0-1" : "2-3");
  write(5, "2", "2048K", "5");
  write(6, "3", "32768K", "");
  write(7, "3", "300000K", "7");
  const auto bytes = [&](std::vector<int> cores) { return third_level_caches(cores, folder.path()); };
  constexpr std::size_t one = std::size_t{32} << 20;
  EXPECT_EQ(bytes({0, 1}), one);
  EXPECT_EQ(bytes({1, 2, 3}), 2 * one);
  EXPECT_EQ(bytes({2, 4}), one);
  EXPECT_EQ(bytes({4, 5, 6}), 0u);
  EXPECT_EQ(bytes({7}), most_cache_bytes);
  EXPECT_EQ(bytes({}), 0u);
}

TEST(CoreListTest, IsWhatTheKernelWrites) {
  EXPECT_EQ(core_list(std::vector<int>{0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(core_list(std::vector<int>{5}), "5");
  EXPECT_EQ(core_list(std::vector<int>{}), "");
  EXPECT_EQ(parse_core_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_core_list("x,2,,7-6,4-"), (std::vector<int>{2, 4}));
  EXPECT_EQ(parse_core_list(""), std::vector<int>{});
  EXPECT_LT(parse_core_list("0-2147483647,0-2147483647,0-2147483647").size(), 1u << 21);
}

// A made-up /sys/devices/system: two nodes whose cores alternate, two threads in each of the four physical cores.
TEST(BindingTest, FirstThreadsFirstAndNodeByNode) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder.path() + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  };
  const std::vector<int> cores = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(binding_order(cores, folder.path()), cores);  // the kernel tells nothing, so the order stays
  write("node/node0/cpulist", "0,2,4,6");
  write("node/node1/cpulist", "1,3,5,7");
  EXPECT_EQ(binding_order(cores, folder.path()), (std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7}));
  for (int core = 0; core < 8; ++core)
    write("cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list",
          std::to_string(core % 4) + "," + std::to_string(core % 4 + 4));
  EXPECT_EQ(binding_order(cores, folder.path()), (std::vector<int>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(binding_order(std::vector<int>{3, 5, 6, 7}, folder.path()), (std::vector<int>{6, 3, 5, 7}));
  EXPECT_EQ(binding_order(std::vector<int>{}, folder.path()), std::vector<int>{});
}

TEST(GpuTest, TheDomainIsTheAddressesInOrder) {
  const TemporaryFolder folder;
  EXPECT_EQ(gpu_domain(folder.path()), "");
  EXPECT_EQ(gpu_domain(folder.path() + "/missing"), "");
  for (const char* address : {"0000:81:00.0", "0000:01:00.0"})
    std::filesystem::create_directories(folder.path() + "/" + address);
  EXPECT_EQ(gpu_domain(folder.path()), "0000:01:00.0 0000:81:00.0");
}

TEST(HostTest, AllowedCoresAreThoseOfTheAffinityMask) {
  const std::vector<int> cores = allowed_cores();
  ASSERT_FALSE(cores.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cores));
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cores.back()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_cores(), (std::vector<int>{cores.back()}));
  EXPECT_EQ(usable_cores(), 1);
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(HostTest, SteppingOntoACoreLeavesTheMask) {
  const std::vector<int> cores = allowed_cores();
  for (const int core : cores) {
    step_onto_core(core);
    EXPECT_EQ(allowed_cores(), cores);
  }
  step_onto_core(-1);
  step_onto_core(cores.back() + 1);
  step_onto_core(1 << 24);
  EXPECT_EQ(allowed_cores(), cores);
}

}  // namespace
}  // namespace tutti::testing
