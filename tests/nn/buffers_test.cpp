// Each policy's effect on buffers, and the comparison of buffers afterwards. Ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/synchronize.hpp"
#include "tests/nn/small_net.hpp"

namespace tutti::nn {
namespace {

/// A network whose buffers differ between ranks: rank r has seen r + 1 batches.
struct Counted : Net {
  explicit Counted(int rank) {
    norm->running_mean.fill_(rank);
    norm->running_var.fill_(1 << rank);
    norm->num_batches_tracked.set_data(at::full({}, rank + 1, at::kLong));  // int64, since to(kDouble) had converted it
    register_buffer("seen", at::full({}, rank == 0, at::kBool));
    register_buffer("nothing", at::empty({0}, at::kHalf));
    register_buffer("again", norm->running_mean);
    const at::NoGradGuard no_grad;
    fc1->weight.add_(rank);  // a parameter, which must not change
  }
};

void expect_buffers(Counted& net, double mean, double var, int batches) {
  EXPECT_TRUE(net.norm->running_mean.eq(mean).all().item<bool>()) << net.norm->running_mean;
  EXPECT_TRUE(net.norm->running_var.eq(var).all().item<bool>()) << net.norm->running_var;
  EXPECT_EQ(net.norm->num_batches_tracked.item<int>(), batches);
}

TEST(SynchronizeBuffers, FollowsThePolicy) {
  run(4, [](Communicator& world) {
    const int rank = world.rank();
    Counted broadcast(rank), average(rank), local(rank);
    synchronize_buffers(broadcast, world, BufferPolicy::broadcast);
    expect_buffers(broadcast, 0, 1, 1);
    EXPECT_TRUE(broadcast.named_buffers()["seen"].item<bool>());
    synchronize_buffers(average, world, BufferPolicy::average);
    expect_buffers(average, 1.5, 3.75, 1);
    EXPECT_TRUE(average.named_buffers()["seen"].item<bool>());
    synchronize_buffers(local, world, BufferPolicy::local);
    expect_buffers(local, rank, 1 << rank, rank + 1);
    for (Counted* each : {&broadcast, &average, &local})
      EXPECT_TRUE(each->fc1->weight.equal(Counted(rank).fc1->weight)) << "a parameter has changed";
  });
}

TEST(SynchronizeBuffers, TakesModulesWithoutAny) {
  run(2, [](Communicator& world) {
    torch::nn::Linear plain(2, 2);
    for (const auto policy : {BufferPolicy::broadcast, BufferPolicy::average, BufferPolicy::local})
      synchronize_buffers(*plain, world, policy);
  });
}

TEST(CheckReplicas, MayLeaveBuffersOut) {
  run(2, [](Communicator& world) {
    Net net;
    net.norm->running_var.add_(world.rank());
    check_replicas(net, world, Compared::parameters);
    try {
      check_replicas(net, world);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("'norm.running_var'"),
                                                 ::testing::HasSubstr("synchronize_buffers()")));
    }
  });
}

}  // namespace
}  // namespace tutti::nn
