// Behaviour of TorchMPI's nn package; the tests are named after its features. Ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "nn/gradient_sync.hpp"
#include "nn/parameter_average.hpp"
#include "nn/synchronize.hpp"
#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"

namespace tutti::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::caught;

const std::vector<std::string> names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"};

/// Returns the gradients of the sum of all ranks' losses, divided by `parts`.
std::vector<at::Tensor> of_all_ranks(int size, double parts) {
  Net alone;
  for (int r = 0; r < size; ++r) loss_of(alone, wave({4, 6}, r)).div(parts).backward();
  return gradients(alone);
}

TEST(TorchMpi, SynchronizeParametersByBroadcastOrByMean) {
  run(3, [](Communicator& world) {
    Net given(10 * world.rank()), wanted(0);
    synchronize_parameters(given, world);
    for (std::size_t i = 0; i < names.size(); ++i) EXPECT_TRUE(given.parameters()[i].equal(wanted.parameters()[i]));
    Net averaged(10 * world.rank()), first(10), second(20);
    ParameterAverage(averaged, world).now();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const at::Tensor mean = (wanted.parameters()[i] + first.parameters()[i] + second.parameters()[i]) / 3;
      EXPECT_LE((averaged.parameters()[i] - mean).abs().max().item<double>(), 1e-15) << names[i];
    }
  });
}

TEST(TorchMpi, SynchronizeGradientsBySumOrByMean) {
  const std::vector<at::Tensor> sum = of_all_ranks(3, 1), mean = of_all_ranks(3, 3);
  run(3, [&](Communicator& world) {
    Net net;
    GradientSync sync(net, world);
    for (const bool summed : {true, false}) {
      sync.zero_grad();
      if (summed) sync.weight(1);  // each rank has weight 1, so gradients are added
      loss_of(net, wave({4, 6}, world.rank())).backward();
      sync.finish();
      expect_close(gradients(net), summed ? sum : mean);
    }
  });
}

TEST(TorchMpi, CheckWithAllreduceNamesTheLayer) {
  run(3, [](Communicator& world) {
    Net net;
    check_replicas(net, world);
    const at::NoGradGuard no_grad;
    if (world.rank() == 2) net.fc2->weight[0][0].add_(1e-3);
    EXPECT_THAT(caught([&] { check_replicas(net, world); }).what(),
                AllOf(HasSubstr("'fc2.weight'"), HasSubstr("rank 2")));
  });
}

TEST(TorchMpi, AsynchronousHooksEqualTheSynchronousFormBitForBit) {
  run(3, [](Communicator& world) {
    Net plain, hooked;
    GradientSync sync(hooked, world, {.first_bytes = 256, .cap_bytes = 1200});
    for (int step = 0; step < 3; ++step) {
      plain.zero_grad();
      sync.zero_grad();
      loss_of(plain, wave({4, 6}, world.rank() + step)).backward();
      average_gradients(plain, world);
      loss_of(hooked, wave({4, 6}, world.rank() + step)).backward();
      sync.finish();
      const auto got = gradients(hooked), wanted = gradients(plain);
      for (std::size_t i = 0; i < names.size(); ++i) EXPECT_TRUE(got[i].equal(wanted[i])) << names[i];
    }
    EXPECT_EQ(sync.stats().overlapped, 3U * 2);  // of three buckets, all but the last are sent before backward ends
    for (const std::string& name : names) EXPECT_EQ(sync.exchanges(name), 3U) << name;
  });
}

TEST(TorchMpi, SyncFrequencyIsThatOfAllLayers) {
  run(2, [](Communicator& world) {
    Net net;
    GradientSync sync(net, world, {.first_bytes = 256, .cap_bytes = 1024});
    for (int step = 1; step <= 9; ++step) {
      std::optional<GradientSync::NoSync> quiet;
      if (step % 3 != 0) quiet.emplace(sync);
      loss_of(net, wave({4, 6}, step)).backward();
      quiet.reset();
      if (step % 3 == 0) sync.finish();
      for (const std::string& name : names) EXPECT_EQ(sync.exchanges(name), static_cast<std::size_t>(step / 3)) << name;
    }
  });
}

TEST(TorchMpi, NothingIsSentAfterUnregistering) {
  run(2, [](Communicator& world) {
    Net net, alone;
    { GradientSync sync(net, world); }
    if (world.rank() == 0) {  // only rank 0 computes, so an exchange would not end
      loss_of(net, wave({4, 6}, 0)).backward();
      loss_of(alone, wave({4, 6}, 0)).backward();
      expect_close(gradients(net), gradients(alone), 0);
    }
    GradientSync again(net, world);  // the network can be registered again
    again.zero_grad();
    loss_of(net, wave({4, 6}, world.rank())).backward();
    again.finish();
    expect_close(gradients(net), of_all_ranks(2, 2));
  });
}

// BlockSequential: about k blocks of about equal size.
TEST(TorchMpi, BucketsAreAboutAsManyAsWanted) {
  constexpr std::size_t bytes = 8U * (6 * 16 + 16 + 16 * 8 + 8 + 8 * 3 + 3);
  run(2, [](Communicator& world) {
    for (const std::size_t blocks : {1U, 2U, 3U}) {
      Net net;
      const std::size_t cap = (bytes + blocks - 1) / blocks;
      GradientSync sync(net, world, {.first_bytes = cap, .cap_bytes = cap});
      EXPECT_GE(sync.buckets(), blocks);
      EXPECT_LE(sync.buckets(), blocks + 1);
      std::size_t total = 0;
      for (std::size_t b = 0; b < sync.buckets(); ++b) total += sync.bucket_bytes(b);
      EXPECT_EQ(total, bytes + 8U * names.size());  // and one double for each parameter
      loss_of(net, wave({4, 6}, world.rank())).backward();
      sync.finish();
      expect_close(gradients(net), of_all_ranks(2, 2));
    }
  });
}

}  // namespace
}  // namespace tutti::nn
