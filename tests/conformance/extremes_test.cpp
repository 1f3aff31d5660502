// Sizes that no memory has and seconds that are no number are refused before anything is sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/refusal.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t one = 1;
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

void run(const std::function<void(Communicator&)>& body) { run_ranks(2, test_settings("inproc"), body); }

void is_usable(Communicator& world) { EXPECT_EQ(world.allreduce(1 + world.rank()).wait(), 3); }

TEST(Sizes, OfACallAreBelowWhatAnAddressSpaceHolds) {
  run([](Communicator& world) {
    std::vector<float> few(4);
    for (const std::size_t count : {one << 62, (one << 62) + 1, one << 61, SIZE_MAX}) {
      const Buffer all(few.data(), count, DType::f32), other(few.data() + 2, count, DType::f32);
      const auto refused = [&](const char* what, auto call) {
        EXPECT_THAT(refusal([&] { static_cast<void>(call()); }),
                    HasSubstr(std::to_string(count) + " elements of f32, more than an address space holds"))
            << what;
      };
      refused("allreduce in place", [&] { return world.allreduce(all); });
      refused("allreduce", [&] { return world.allreduce(other, all, avg); });
      refused("reduce", [&] { return world.reduce(all, max); });
      refused("broadcast", [&] { return world.broadcast(all); });
      refused("allgather", [&] { return world.allgather(all, other); });
      refused("gather", [&] { return world.gather(all, other, world.rank()); });
      refused("scatter", [&] { return world.scatter(all, other, world.rank()); });
      refused("reduce_scatter", [&] { return world.reduce_scatter(all, other); });
      refused("alltoall", [&] { return world.alltoall(all, other); });
      refused("send", [&] { return world.send(all, 1 - world.rank()); });
      refused("recv", [&] { return world.recv(all, 1 - world.rank()); });
      refused("sendrecv", [&] { return world.sendrecv(few, 1 - world.rank(), all, 1 - world.rank()); });
    }
    is_usable(world);
  });
}

TEST(Sizes, OfAllBlocksAreSummedWithoutWrapping) {
  run([](Communicator& world) {
    std::vector<std::uint8_t> none;
    const ConstBuffer half(&world, one << 62, DType::u8);  // times 2 ranks it is 2^63
    EXPECT_THAT(refusal([&] { static_cast<void>(world.allgather(half, none)); }), HasSubstr("out has 0 elements"));
    std::vector<double> few(4);
    const std::vector<std::size_t> counts = {one << 60, 0}, wrapping = {SIZE_MAX, 5};
    for (const auto& list : {counts, wrapping}) {
      const auto refused = [&](auto call) {
        EXPECT_THAT(refusal([&] { static_cast<void>(call()); }), HasSubstr("more than an address space holds"));
      };
      refused([&] { return world.allgatherv(few, few, list); });
      refused([&] { return world.reduce_scatterv(few, few, list); });
      refused([&] { return world.alltoallv(few, list, few, list); });
    }
    is_usable(world);
  });
}

TEST(Sizes, OfAllocationsAreRefusedOrNotThere) {
  run([](Communicator& world) {
    for (const std::size_t count : {one << 60, one << 61, (one << 61) + 1, SIZE_MAX})
      EXPECT_THAT(refusal([&] { static_cast<void>(world.allocate<double>(count)); }),
                  HasSubstr(std::to_string(count) + " elements of 8 bytes are more than an address space holds"));
    for (const std::size_t bytes : {one << 62, std::size_t{PTRDIFF_MAX}})
      EXPECT_NE(refusal([&] { static_cast<void>(world.allocate<std::byte>(bytes)); }, Code::resource), "");
    EXPECT_THAT(refusal([&] { static_cast<void>(world.register_memory(&world, SIZE_MAX)); }),
                HasSubstr("more than an address space holds"));
    EXPECT_EQ(world.allocate<double>(0).size(), 0u);
    EXPECT_EQ(world.allocate<double>(5)[4], 0);
    is_usable(world);
  });
}

TEST(Seconds, AreNumbers) {
  run([](Communicator& world) {
    std::vector<float> four(4);
    const int other = 1 - world.rank();
    const Work pending[] = {world.recv(four, other)};
    EXPECT_THAT(refusal([&] { static_cast<void>(pending[0].wait_for(Seconds(no_number))); }), HasSubstr("NaN"));
    EXPECT_THAT(refusal([&] { static_cast<void>(wait_any(pending, Seconds(no_number))); }), HasSubstr("NaN"));
    EXPECT_THAT(refusal([&] { static_cast<void>(Work().wait_for(Seconds(no_number))); }), HasSubstr("NaN"));
    EXPECT_FALSE(pending[0].wait_for(Seconds(-1e300)));
    for (const double timeout : {no_number, -1.0, 0.0, -std::numeric_limits<double>::infinity()})
      EXPECT_THAT(refusal([&] { static_cast<void>(world.barrier({.timeout = timeout})); }),
                  HasSubstr("give more than 0 seconds, or infinity"));
    EXPECT_THAT(refusal([&] { ParameterServer({}, {.timeout = no_number}); }), HasSubstr("timeout is not a number"));
    EXPECT_THAT(refusal([&] { ParameterServer(world, {.silence = no_number}); }), HasSubstr("silence is not a number"));
    world.barrier({.timeout = 1e300}).wait();
    world.send(four, other).wait();
    EXPECT_TRUE(pending[0].wait_for(Seconds(std::numeric_limits<double>::infinity())));
    is_usable(world);
  });
}

// An exception of any type is logged; it neither ends the process nor comes out of a wait.
TEST(Callbacks, MayThrowAnything) {
  run([](Communicator& world) {
    std::vector<float> four(4, 1);
    std::atomic<int> ran = 0;
    const Work work = world.allreduce(four);
    work.then([&](const Status&) {
      ++ran;
      throw 5;
    });
    work.then([&](const Status&) {
      ++ran;
      throw std::runtime_error("of the user's own");
    });
    work.then([&](const Status& status) { ran += status.ok() ? 1 : 100; });
    work.wait();
    for (int i = 0; i < 3000 && ran < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(ran, 3);
    is_usable(world);
  });
}

}  // namespace
}  // namespace tutti::testing
