// Counts the system calls by which the library binds threads to cores.
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/worlds.hpp"
#include "transports/core/host.hpp"

namespace {
std::atomic<long> masks_set = 0;
}  // namespace

extern "C" int sched_setaffinity(pid_t thread, std::size_t bytes, const cpu_set_t* mask) noexcept {
  ++masks_set;
  return static_cast<int>(::syscall(SYS_sched_setaffinity, thread, bytes, mask));
}

namespace tutti {
namespace {

constexpr std::size_t most_cores = 16;

// Counts how often the library binds threads, in waits and large scatters of more ranks than cores. The test itself
// binds each rank to every core in turn.
long masks_set_by_the_library(const char* home_cores) {
  Settings settings = testing::test_settings("shm");
  settings.home_cores = home_cores;
  const std::vector<int> cores = allowed_cores();
  const int ranks = static_cast<int>(cores.size()) + 2;
  std::atomic<long> by_the_test = 0;
  masks_set = 0;
  testing::run_ranks(ranks, settings, [&](Communicator& world) {
    std::vector<float> all(world.rank() == 0 ? static_cast<std::size_t>(ranks) << 17 : 0), block(1 << 17);
    for (const int core : cores) {
      step_onto_core(core);
      by_the_test += 2;  // one to bind, one to restore the mask
      if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      world.barrier().wait();
      // Not by cma, with which a rank that shares the root's core need not leave it.
      world.scatter(all, block, 0, {.algorithm = "shm/two_copy"}).wait();
    }
  });
  return masks_set - by_the_test;
}

TEST(HomeCores, AreGoneBackToByWhoWaits) {
  if (allowed_cores().size() < 2) GTEST_SKIP() << "there is one core here";
  if (allowed_cores().size() > most_cores) GTEST_SKIP() << "too many cores to have more ranks";
  if (usable_cores() != static_cast<int>(allowed_cores().size())) GTEST_SKIP() << "a quota leaves part of the cores";
  EXPECT_GT(masks_set_by_the_library("on"), 0);
}

TEST(HomeCores, AreLeftAloneWhereTheyAreOff) {
  if (allowed_cores().size() > most_cores) GTEST_SKIP() << "too many cores to have more ranks";
  EXPECT_EQ(masks_set_by_the_library("off"), 0);
}

}  // namespace
}  // namespace tutti
