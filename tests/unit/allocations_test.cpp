// What a call takes from the heap once its like has been made: nothing.
#include <gtest/gtest.h>

#include <array>
#include <functional>
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

// By all ranks and their background threads together, in `calls` calls of each rank.
std::size_t allocations_of(Communicator& world, const std::function<void()>& call) {
  for (int i = 0; i < warm_up; ++i) call();
  world.barrier().wait();
  world.barrier().wait();  // nobody is in the one before it any more
  const std::size_t before = heap_use().allocations;
  for (int i = 0; i < calls; ++i) call();
  return heap_use().allocations - before;
}

// Every form that is to cost nothing. `data` is one rank's.
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

// Its calls end in start(), or at the next look, which the waiter takes.
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

// Directly over shared memory, by each of its engines, also where a call waits behind another one.
TEST(Allocations, AreNoneWithinAHost) {
  constexpr int ranks = 3;
  run_ranks(ranks, test_settings("shm"), [](Communicator& world) {
    for (const std::size_t count : {4u, 3000u, 40'000u}) {
      std::vector<float> data(count);
      auto shared = world.allocate<float>(count);
      auto all = forms(world, data);
      all.emplace_back("allreduce of shared memory", [&] { world.allreduce(shared).wait(); });
      all.erase(all.begin() + 3);  // the scalar, whose result is of one rank
      for (const auto& [name, call] : all) {
        const std::size_t taken = allocations_of(world, call);
        world.barrier().wait();
        EXPECT_EQ(taken, 0u) << name << " of " << count;
      }
    }
  });
}

// The counter itself counts.
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
