// The order in which one rank launches NCCL's calls. Its messages go to a transport that keeps them.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/kept_transport.hpp"
#include "transports/causes.hpp"
#include "transports/nccl/order.hpp"

namespace tutti::nccl {
namespace {

class NcclLaunchOrder : public ::testing::Test {
 protected:
  NcclLaunchOrder() { order->count(1); }

  std::shared_ptr<LaunchOrder::Place> join() {
    return order->join({&group, 1, 0, [this](const Status& why) { troubles.push_back(why); }});
  }

  testing::KeptTransport wire{"kept", 0, 2};
  Group group{.id = 7, .rank = 0, .members = std::vector<int>{0, 1}};
  std::shared_ptr<LaunchOrder> order = std::make_shared<LaunchOrder>(wire);
  std::vector<Status> troubles;
};

// The other rank proposed a launch time, took part, and left before it got the result. This is no failure.
TEST_F(NcclLaunchOrder, ARankThatHasLeftAfterItTookPartIsNoTrouble) {
  const auto place = join();
  order->begun(*place);
  wire.arrives(3);
  ASSERT_EQ(wire.sent.size(), 1u);
  wire.sent[0](Status(ended(1, 0)));
  EXPECT_TRUE(troubles.empty());
  EXPECT_TRUE(order->has_turn(*place));
}

// The other rank left without making the call, so the call fails.
TEST_F(NcclLaunchOrder, ARankThatHasLeftBeforeTheCallIsTheTroubleOfTheCall) {
  const auto place = join();
  wire.awaited[0].second(Status(ended(1, 0)));
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_EQ(troubles[0].code(), Code::peer_lost);
  EXPECT_FALSE(order->has_turn(*place));
}

}  // namespace
}  // namespace tutti::nccl
