// The error of a call that other ranks never make, after its deadline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "tests/support/caught.hpp"
#include "tests/support/worlds.hpp"
#include "transports/core/host.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

TEST(Watchdog, NamesThoseInTheSameStateTogether) {
  std::latch failed(2);
  run_ranks(6, test_settings("inproc"), [&](Communicator& world) {
    float value = 1;
    world.allreduce(Buffer(&value, 1)).wait();
    if (world.rank() != 0 && world.rank() != 4) return failed.wait();
    const Error error = caught([&] { world.allreduce(Buffer(&value, 1), sum, {.timeout = 2.0}).wait(); });
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_EQ(error.culprit(), 1);
    EXPECT_THAT(error.what(), HasSubstr("ranks 1-3, 5 on " + host_name() +
                                        " have not made this call; the last they completed was call 1, allreduce"));
    failed.count_down();
  });
}

// In a larger group a rank asks the ranks with which it exchanges messages, and the answer comes back along the chain.
TEST(Watchdog, FollowsTheChainToTheLateRank) {
  constexpr int ranks = 24, late = 17;
  for (const char* const algorithm : {"ring", "recursive_doubling"}) {
    std::latch failed(ranks - 1);
    run_ranks(ranks, test_settings("inproc"), [&](Communicator& world) {
      std::vector<float> values(ranks, 1.0f);
      const CallOptions by{.timeout = 4.0, .algorithm = algorithm};
      world.allreduce(Buffer(values.data(), values.size()), sum, by).wait();
      if (world.rank() == late) return failed.wait();
      const Error error = caught([&] { world.allreduce(Buffer(values.data(), values.size()), sum, by).wait(); });
      failed.count_down();
      EXPECT_EQ(error.code(), Code::timeout);
      EXPECT_EQ(error.culprit(), late) << algorithm << ", rank " << world.rank();
      EXPECT_THAT(error.what(), HasSubstr("rank 17 on " + host_name() +
                                          " has not made this call; the last it completed was call 1, allreduce"))
          << algorithm << ", rank " << world.rank();
    });
  }
}

}  // namespace
}  // namespace tutti::testing
