// A call allocates nothing on the heap if an equal call has been made before.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/counted_heap.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/worlds.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using testing::heap_use;
using testing::run_ranks;
using testing::test_settings;

constexpr int warm_up = 300, calls = testing::thinned ? 100 : 1000;

// Returns the allocations of all ranks and their background threads, while each rank makes `calls` calls.
std::size_t allocations_of(Communicator& world, const std::function<void()>& call) {
  for (int i = 0; i < warm_up; ++i) call();
  world.barrier().wait();
  world.barrier().wait();  // after it, all ranks have left the first barrier
  const std::size_t before = heap_use().allocations;
  for (int i = 0; i < calls; ++i) call();
  return heap_use().allocations - before;
}

constexpr std::chrono::milliseconds a_long_time{300};  // after this time the other ranks ask the late one

// Makes calls to which each rank in turn comes so late that the others ask which calls it has made.
void stall(Communicator& world) {
  std::array<std::vector<float>, 8> data;
  for (auto& one : data) one.resize(16);
  for (int late = 0; late < world.size(); ++late) {
    if (world.rank() == late) std::this_thread::sleep_for(a_long_time);
    std::array<Work, 8> pending;
    for (std::size_t i = 0; i < pending.size(); ++i) pending[i] = world.allreduce(data[i]);
    for (Work& one : pending) one.wait();
  }
}

// Returns the forms of calls that must not allocate. `data` is the buffer of one rank.
std::vector<std::pair<const char*, std::function<void()>>> forms(Communicator& world, std::vector<float>& data) {
  return {
      {"barrier", [&] { world.barrier().wait(); }},
      {"allreduce in place", [&] { world.allreduce(data).wait(); }},
      {"broadcast", [&] { world.broadcast(data).wait(); }},
      {"a scalar allreduce", [&] { EXPECT_EQ(world.allreduce(1, max).wait(), 1); }},
      {"with a deadline of its own", [&] { world.allreduce(data, sum, {.timeout = 5.0}).wait(); }},
      {"eight at a time",
       [&] {
         std::array<Work, 8> pending;
         for (Work& one : pending) one = world.allreduce(data);
         for (Work& one : pending) one.wait();
       }},
  };
}

// The backend "instant" ends its calls in start(), "instant/later" at the waiter's next poll.
TEST(Allocations, AreNoneForACallOfABackend) {
  for (const char* const backend : {"instant", "instant/later"}) {
    Settings settings = test_settings("inproc");
    settings.module_path = TUTTI_TEST_MODULES;
    settings.backend = backend;
    run_ranks(1, settings, [&](Communicator& world) {
      std::vector<float> data(16);
      EXPECT_NE(world.explain(Collective()).find(backend), std::string::npos);
      for (const auto& [name, call] : forms(world, data)) EXPECT_EQ(allocations_of(world, call), 0u) << name;
    });
  }
}

TEST(Allocations, AreNoneInAWorldOfOne) {
  run_ranks(1, test_settings("inproc"), [](Communicator& world) {
    std::vector<float> data(16);
    for (const auto& [name, call] : forms(world, data)) EXPECT_EQ(allocations_of(world, call), 0u) << name;
  });
}

// Over shared memory, by each engine of shm, also for calls that wait behind another call.
TEST(Allocations, AreNoneWithinAHost) {
  constexpr int ranks = 3;
  run_ranks(ranks, test_settings("shm"), [](Communicator& world) {
    stall(world);  // as on a busy machine
    for (const std::size_t count : {4u, 3000u, 40'000u}) {
      std::vector<float> data(count);
      auto shared = world.allocate<float>(count);
      auto all = forms(world, data);
      all.emplace_back("allreduce of shared memory", [&] { world.allreduce(shared).wait(); });
      all.erase(all.begin() + 3);  // removes the scalar, whose expected result is for one rank
      for (const auto& [name, call] : all) {
        const std::size_t taken = allocations_of(world, call);
        world.barrier().wait();
        EXPECT_EQ(taken, 0u) << name << " of " << count;
      }
    }
  });
}

// On a busy machine a rank may get no core for so long that the others ask which calls it has made, as they ask a rank
// that has made another call.
TEST(Allocations, AreNoneForACallThatRanksAreAskedAbout) {
  run_ranks(3, test_settings("shm"), [](Communicator& world) {
    std::vector<float> data(16);
    const auto late_call = [&] {
      if (world.rank() == 1) std::this_thread::sleep_for(a_long_time);
      world.allreduce(data).wait();
    };
    stall(world);
    late_call();
    world.barrier().wait();
    world.barrier().wait();
    const std::size_t before = heap_use().allocations;
    late_call();
    const std::size_t taken = heap_use().allocations - before;
    world.barrier().wait();
    EXPECT_EQ(taken, 0u);
  });
}

// Checks that the counter counts allocations.
TEST(Allocations, AreSeen) {
  run_ranks(1, test_settings("inproc"), [](Communicator& world) {
    std::vector<float> data(16);
    const std::array<std::size_t, 1> counts{data.size()};
    std::vector<float> out(16);
    EXPECT_GE(allocations_of(world, [&] { world.allgatherv(data, out, counts).wait(); }), std::size_t{calls});
  });
}

}  // namespace
}  // namespace tutti
