// A thousand groups made and dropped leave memory, descriptors, mappings and threads as they were.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "collectives/tutti.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool knows_its_heap = false;  // the sanitizer has a heap of its own
#else
constexpr bool knows_its_heap = true;
#endif

/// What this process holds.
struct Holdings {
  std::size_t heap = 0, descriptors = 0, shared = 0, threads = 0;
};

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

Holdings holdings() {
  Holdings now;
  if (knows_its_heap) now.heap = ::mallinfo2().uordblks;
  now.descriptors = entries("/proc/self/fd");
  now.threads = entries("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) now.shared += line.find(" rw-s ") != std::string::npos;
  return now;
}

// One of each sort, used.
void come_and_go(Communicator& world, int i) {
  const auto use = [](std::optional<Communicator> group) {
    if (group && group->allreduce(1).wait() != group->size()) throw std::runtime_error("a sum in a group");
  };
  switch (i % 7) {
    case 0: return use(world.split(world.rank() % 2));
    case 1: return use(world.split_by(std::to_string(i * (world.rank() / 2))));
    case 2: return use(world.subgroup(std::vector<int>{2, 0}));
    case 3: return use(world.dup());
    case 4: return use(world.node());
    case 5: return use(world.across());
    default: return use(world.leaders());
  }
}

class ManyGroups : public ::testing::TestWithParam<const char*> {};

TEST_P(ManyGroups, LeaveNothingBehind) {
  constexpr int size = 4;
  Holdings before, after;
  run_ranks(
      size,
      [&](int rank) {
        const std::string way = GetParam();
        Settings settings = test_settings(way == "routed" ? "shm,tcp" : way);
        settings.host_id = rank % 2 == 0 ? "even" : "odd";
        return settings;
      },
      [&](Communicator& world) {
        const auto look = [&](Holdings& at) {
          world.barrier().wait();
          if (world.rank() == 0) at = holdings();
          world.barrier().wait();
        };
        for (int i = 0; i < 210; ++i) come_and_go(world, i);  // pools and caches fill
        look(before);
        for (int i = 0; i < 1001; ++i) come_and_go(world, i);
        {
          std::vector<Communicator> alive;  // and many at a time
          for (int i = 0; i < 100; ++i) alive.push_back(i % 2 == 0 ? world.node() : world.dup());
          for (Communicator& one : alive) one.barrier().wait();
        }
        for (int i = 0; i < 7; ++i) come_and_go(world, i);
        look(after);
      });
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.shared, before.shared);
  EXPECT_LT(after.heap, before.heap + 32 * 1100) << "more than 32 bytes for each group, of all ranks together";
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ManyGroups, ::testing::Values("inproc", "tcp", "routed"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tutti::testing
