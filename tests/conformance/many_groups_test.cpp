// Memory, descriptors, mappings and threads do not grow when a thousand groups are made and dropped. Hundreds of groups
// at a time hold little.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/arenas.hpp"
#include "tests/support/counted_heap.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

/// The resources that this process holds.
struct Holdings {
  std::size_t heap = 0, descriptors = 0, shared = 0, threads = 0, segments = 0;
};

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

Holdings holdings() {
  Holdings now;
  now.heap = heap_use().bytes;
  now.descriptors = entries("/proc/self/fd");
  now.threads = entries("/proc/self/task");
  now.segments = segment_bytes();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) now.shared += line.find(" rw-s ") != std::string::npos;
  return now;
}

// Makes a group of one of the eight sorts, uses it, and drops it.
void come_and_go(Communicator& world, int i) {
  const auto use = [](std::optional<Communicator> group) {
    if (group && group->allreduce(1).wait() != group->size()) throw std::runtime_error("a sum in a group");
  };
  const std::vector<int> even{2, 0};
  switch (i % 8) {
    case 7: return world.rank() % 2 == 0 ? use(world.group(even, "even")) : void();  // odd ranks take no part
    case 0: return use(world.split(world.rank() % 2));
    case 1: return use(world.split_by(std::to_string(i * (world.rank() / 2))));
    case 2: return use(world.subgroup(even));
    case 3: return use(world.dup());
    case 4: return use(world.node());
    case 5: return use(world.across());
    default: return use(world.leaders());
  }
}

// Exchanges messages between all pairs of ranks, so that later calls open no connections.
void meet_all(Communicator& world) {
  std::vector<int> to_all(static_cast<std::size_t>(world.size())), of_all(to_all.size());
  world.alltoall(std::span<const int>(to_all), std::span<int>(of_all), {.algorithm = "planned"}).wait();
}

class ManyGroups : public ::testing::TestWithParam<const char*> {};

TEST_P(ManyGroups, LeaveNothingBehind) {
  constexpr int size = 4, groups = 5005;
  Holdings before, after;
  run_ranks(
      size,
      [&](int rank) {
        const std::string way = GetParam();
        Settings settings = test_settings(way == "routed" ? "shm,tcp" : way);
        if (way != "shm") settings.host_id = rank % 2 == 0 ? "even" : "odd";
        return settings;
      },
      [&](Communicator& world) {
        const auto look = [&](Holdings& at) {
          world.barrier().wait();
          if (world.rank() == 0) at = holdings();
          world.barrier().wait();
        };
        const auto many = [&](int one_by_one) {
          for (int i = 0; i < one_by_one; ++i) come_and_go(world, i);
          std::vector<Communicator> alive;  // then many groups at a time
          for (int i = 0; i < 100; ++i) alive.push_back(i % 2 == 0 ? world.node() : world.dup());
          for (Communicator& one : alive) one.barrier().wait();
          alive.clear();
          for (int i = 0; i < 8; ++i) come_and_go(world, i);
        };
        meet_all(world);
        many(210);  // lets pools and tables grow to their final size
        look(before);
        many(groups);
        look(after);
      });
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.shared, before.shared);
  // Ranks may not yet know of the last groups that were dropped, whose memory is then reused a little later.
  EXPECT_LE(after.segments, before.segments + 512 * 1024);
  // Spare objects and the tables of ended groups vary by some ten kilobytes. One pointer left per group would be more.
  EXPECT_LT(after.heap, before.heap + groups * size * sizeof(void*)) << "something is left of each group";
}

// Measures what groups hold before their first large call, and after large calls of all groups.
TEST(ManyGroupsAlive, HoldLittle) {
  constexpr int size = 4;
  constexpr std::size_t groups = 300, kib = 1024;
  run_ranks(size, test_settings("shm"), [&](Communicator& world) {
    std::vector<Communicator> alive;
    alive.reserve(groups);
    std::vector<float> large(64 * kib);
    const auto holds = [&] {
      world.barrier().wait();
      const Holdings now = world.rank() == 0 ? holdings() : Holdings();
      world.barrier().wait();
      return now;
    };
    const auto use_all = [&](std::size_t count) {
      for (Communicator& one : alive) one.allreduce(std::span(large).first(count)).wait();
    };
    meet_all(world);
    world.dup().allreduce(large).wait();
    const Holdings none = holds();
    for (std::size_t i = 0; i < groups; ++i) alive.push_back(world.dup());
    const Holdings made = holds();
    use_all(2);
    const Holdings small = holds();
    use_all(kib);
    use_all(large.size());
    const Holdings used = holds();
    if (world.rank() != 0) return;
    const auto each = [&](std::size_t now, std::size_t then) { return (now - std::min(now, then)) / groups / size; };
    EXPECT_LE(each(made.heap, none.heap), 8 * kib);
    EXPECT_EQ(made.segments, none.segments) << "a slab is taken by the first call";
    EXPECT_LE(each(small.heap, none.heap) + each(small.segments, none.segments), 16 * kib);
    // A rank has few buffers for large calls: 8 of 256 KiB, 8 of 512 KiB, and as many that are changing owners.
    EXPECT_LE(used.segments, small.segments + size * 2 * 8 * 768 * kib);
    EXPECT_EQ(made.descriptors, none.descriptors);
    EXPECT_EQ(used.shared, none.shared);
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ManyGroups, ::testing::Values("inproc", "tcp", "shm", "routed"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tutti::testing
