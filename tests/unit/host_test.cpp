// The host's identity and the number of usable cores.
#include "transports/core/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tutti {
namespace {

// A made-up /sys/fs/cgroup.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tutti-cgroup-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  double cores(const std::string& membership) const { return cgroup_cores(membership, root_); }

 private:
  std::string root_;
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
  write("cpu.max", "50000 100000");  // as a container sees its own group
  EXPECT_DOUBLE_EQ(cores("0::/a/b/c\n"), 0.5);
}

TEST_F(CgroupTest, Version1) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "300000");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cores("4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"), 3);
  EXPECT_TRUE(std::isinf(cores("5:cpuset:/job\n")));  // not the cpu controller
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  EXPECT_TRUE(std::isinf(cores("3:cpu,cpuacct:/job\n")));
}

TEST_F(CgroupTest, Version1InAContainerThatDoesNotSeeItsPath) {
  write("cpu/cpu.cfs_quota_us", "200000");
  write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cores("3:cpu,cpuacct:/docker/0123\n"), 2);
  EXPECT_DOUBLE_EQ(cores("3:cpu:/docker/0123\n"), 2);
}

}  // namespace
}  // namespace tutti
