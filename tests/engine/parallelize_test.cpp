// Tests what one call of parallelize() does; the tests are named after TorchAD-NN's features. Ranks are threads.
#include "engine/loop/parallelize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"

namespace tutti::engine {
namespace {

using nn::Net;
using nn::run;
using nn::wave;
using ::testing::HasSubstr;
using tutti::testing::caught;

/// Returns the network's inputs for these samples, one row each.
at::Tensor inputs(std::span<const SampleId> samples) {
  std::vector<at::Tensor> rows;
  for (const SampleId each : samples) rows.push_back(wave({6}, static_cast<double>(each)));
  return at::stack(rows);
}

/// Trains one epoch with plain SGD.
void train(Net& net, Parallel& parallel, std::size_t epoch = 0) {
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
  parallel.start_epoch(epoch);
  while (parallel.next()) {
    if (!parallel.samples().empty()) loss_of(net, inputs(parallel.samples())).backward();
    parallel.exchange();
    optimizer.step();
  }
}

TEST(TorchAdNn, AutoPartitionLosesNoSampleUnlessItIsTold) {
  for (const auto& [remainder, least, most] :
       {std::tuple{Remainder::uneven, 103U, 103U}, {Remainder::pad, 103U, 104U}, {Remainder::drop, 100U, 100U}}) {
    std::multiset<SampleId> seen;
    std::mutex mutex;
    run(4, [&, remainder = remainder](Communicator& world) {
      Net net;
      Parallel parallel = parallelize(net, 103, world, {.batch = 8, .way = Way::contiguous, .remainder = remainder});
      parallel.start_epoch(0);
      while (parallel.next()) {
        const std::scoped_lock lock(mutex);
        seen.insert(parallel.samples().begin(), parallel.samples().end());
      }
    });
    EXPECT_GE(seen.size(), least);
    EXPECT_LE(seen.size(), most);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), remainder == Remainder::drop ? 100U : 103U);
  }
}

TEST(TorchAdNn, StartsByItself) {
  Net net;
  Parallel parallel = parallelize(net, 10);
  EXPECT_EQ(parallel.period(), 1);
  train(net, parallel);
  EXPECT_EQ(parallel.exchanges(), 1U);  // one rank on the CPU has ten samples in one batch
}

TEST(TorchAdNn, InitialParametersAndBuffersAreAlwaysAlike) {
  run(3, [](Communicator& world) {
    for (const int period : {1, 4, manual, automatic}) {
      Net net(10 * world.rank());
      const Parallel parallel = parallelize(net, 40, world, {.period = period});
      check_replicas(net, world);
      EXPECT_TRUE(net.parameters()[0].equal(Net(0).parameters()[0]));
    }
  });
}

TEST(TorchAdNn, AutomaticSyncComesEveryPeriodAndAtTheEndOfAnEpoch) {
  run(2, [](Communicator& world) {
    for (const int period : {1, 3, 4, 20}) {
      Net net;
      Parallel parallel = parallelize(net, 40, world, {.batch = 4, .period = period});
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        train(net, parallel, epoch);
        EXPECT_EQ(parallel.exchanges(), (epoch + 1) * ((10 + period - 1) / period)) << period;
        check_replicas(net, world);
      }
    }
  });
}

TEST(TorchAdNn, AWholeEpochOfPeriodOneIsThatOfOneRank) {
  std::vector<at::Tensor> wanted;
  for (const int size : {1, 2, 3})
    run(size, [&](Communicator& world) {
      Net net;
      Parallel parallel = parallelize(net, 22, world, {.batch = 4, .seed = 3});
      train(net, parallel);
      if (size == 1)
        for (const at::Tensor& each : net.parameters()) wanted.push_back(each.detach().clone());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_LE((net.parameters()[i] - wanted[i]).abs().max().item<double>(), 1e-12);
    });
}

// A container inside another one is not exchanged a second time.
TEST(TorchAdNn, NestedContainersAddNoCalls) {
  run(2, [](Communicator& world) {
    struct Outer : torch::nn::Module {
      torch::nn::Sequential inner =
          register_module("inner", torch::nn::Sequential(torch::nn::Linear(6, 4), torch::nn::Linear(4, 1)));
      torch::nn::Linear outer = register_module("outer", torch::nn::Linear(1, 1));
    } net;
    net.to(at::kDouble);
    Parallel parallel = parallelize(net, 16, world, {.batch = 4, .buckets = {.first_bytes = 1 << 20}});
    parallel.start_epoch(0);
    while (parallel.next()) {
      net.outer->forward(net.inner->forward(inputs(parallel.samples()))).sum().backward();
      parallel.exchange();
    }
    EXPECT_EQ(parallel.exchanges(), 4U);
    EXPECT_EQ(parallel.gradients().stats().collectives, 4U);
  });
}

TEST(TorchAdNn, ManualSyncIsTheUsersAlone) {
  run(2, [](Communicator& world) {
    Net net;
    Parallel parallel = parallelize(net, 40, world, {.batch = 4, .period = manual});
    train(net, parallel);
    EXPECT_EQ(parallel.exchanges(), 0U);
    EXPECT_EQ(parallel.gradients().stats().collectives, 0U);
    EXPECT_THAT(caught([&] { check_replicas(net, world, nn::Compared::parameters); }).what(), HasSubstr("differ"));
    parallel.start_epoch(1);
    ASSERT_TRUE(parallel.next());
    loss_of(net, inputs(parallel.samples())).backward();
    EXPECT_FALSE(parallel.exchange());
    parallel.synchronize();
    EXPECT_EQ(parallel.exchanges(), 1U);
    check_replicas(net, world, nn::Compared::parameters);
  });
}

TEST(TorchAdNn, ParametersAndGradientsBecomeTheirExactMeans) {
  run(3, [](Communicator& world) {
    Net net;
    Parallel parallel = parallelize(net, 30, world, {.batch = 6, .period = manual});
    parallel.start_epoch(0);
    ASSERT_TRUE(parallel.next());
    loss_of(net, inputs(parallel.samples())).backward();
    const auto mean = [&](at::Tensor value) {
      value = value.detach().clone();
      world.allreduce(Buffer(value.data_ptr(), static_cast<std::size_t>(value.numel()), DType::f64), sum).wait();
      return value / 3;
    };
    std::vector<at::Tensor> parameters, gradients;
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& each : net.parameters()) each.add_(world.rank());
    }
    for (const at::Tensor& each : net.parameters()) {
      parameters.push_back(mean(each));
      gradients.push_back(mean(each.grad()));
    }
    parallel.synchronize();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_LE((net.parameters()[i] - parameters[i]).abs().max().item<double>(), 1e-14);
      EXPECT_LE((net.parameters()[i].grad() - gradients[i]).abs().max().item<double>(), 1e-14);
    }
    check_replicas(net, world, nn::Compared::parameters);
  });
}

TEST(TorchAdNn, ThePeriodFollowsTheSizeOrTheTimesMeasured) {
  EXPECT_EQ(period_by_size(999), 1);
  EXPECT_EQ(period_by_size(1000), 10);
  EXPECT_EQ(period_by_size(2499), 10);
  EXPECT_EQ(period_by_size(2500), 50);
  EXPECT_EQ(period_by_size(4999), 50);
  EXPECT_EQ(period_by_size(5000), 100);
  EXPECT_EQ(period_for(1, 0, 0.1), 1);
  EXPECT_EQ(period_for(0.9, 0.1, 0.1), 1);  // communication takes a tenth of the time already
  EXPECT_EQ(period_for(1, 1, 0.1), 9);      // then 1/9 of 1 + 1/9 is communication
  EXPECT_EQ(period_for(1, 1, 0.5), 1);
  EXPECT_EQ(period_for(0, 1, 0.1), 1000000);
  run(2, [](Communicator& world) {
    Net net;
    Parallel parallel =
        parallelize(net, 80, world, {.batch = 4, .period = automatic, .most_communication = 1e-6, .measured_steps = 5});
    train(net, parallel);
    EXPECT_GT(parallel.period(), 20);  // so little communication is allowed that the rest is one period
    EXPECT_EQ(parallel.exchanges(), 5U + 1);
    EXPECT_EQ(world.allreduce(std::int64_t{parallel.period()}, max).wait(), parallel.period());
    check_replicas(net, world);
  });
  EXPECT_THAT(caught([&] {
                Net net;
                parallelize(net, 10, Communicator::from_env(), {.period = -2});
              }).what(),
              HasSubstr("-1 for a manual one"));
}

}  // namespace
}  // namespace tutti::engine
