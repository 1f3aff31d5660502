// What a call that nobody joins says when its deadline has passed.
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

}  // namespace
}  // namespace tutti::testing
