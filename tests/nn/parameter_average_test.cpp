// The mean of the parameters every few steps, of all at once or layer by layer. Ranks are threads.
#include "nn/parameter_average.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/synchronize.hpp"
#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"

namespace tutti::nn {
namespace {

using ::testing::HasSubstr;
using tutti::testing::caught;

std::vector<at::Tensor> values(const torch::nn::Module& net) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : net.parameters()) all.push_back(each.detach().clone());
  return all;
}

/// Returns the mean of the parameters of Net(0) to Net(size - 1).
std::vector<at::Tensor> mean_of_nets(int size) {
  std::vector<at::Tensor> mean = values(Net(0));
  for (int r = 1; r < size; ++r) {
    const std::vector<at::Tensor> more = values(Net(r));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += more[i];
  }
  for (at::Tensor& each : mean) each /= size;
  return mean;
}

void move_on(const at::Tensor& parameter, int rank) {
  const at::NoGradGuard no_grad;
  parameter.mul_(0.9).add_(0.1 * rank);
}

TEST(ParameterAverage, IsTheMean) {
  for (const int size : {1, 3})
    run(size, [&](Communicator& world) {
      Net net(world.rank());
      ParameterAverage average(net, world);
      EXPECT_EQ(average.layers(), (std::vector<std::string>{"fc1", "fc2", "fc3"}));
      EXPECT_TRUE(average.step());
      expect_close(values(net), mean_of_nets(size), 1e-15);
      check_replicas(net, world, Compared::parameters);
      EXPECT_EQ(average.stats().collectives, 3U);
      EXPECT_EQ(average.stats().bytes, 8U * (6 * 16 + 16 + 16 * 8 + 8 + 8 * 3 + 3));
    });
}

/// Makes nine steps with an average after every third one, of all parameters at once or layer by layer.
std::vector<at::Tensor> nine_steps(Communicator& world, bool by_layers) {
  Net net(world.rank());
  ParameterAverage average(net, world, 3);
  std::vector<std::string> layers = average.layers();
  std::vector<int> averaged_in;
  for (int step = 1; step <= 9; ++step) {
    if (!by_layers) {
      for (const at::Tensor& each : net.parameters()) move_on(each, world.rank());
      if (average.step()) averaged_in.push_back(step);
      continue;
    }
    if (average.next_step()) averaged_in.push_back(step);
    for (std::size_t i = layers.size(); i-- > 0;) {
      for (const auto& [name, each] : named_parameters(net))
        if (name.starts_with(layers[i] + ".")) move_on(each, world.rank());
      average.start(layers[i]);
    }
    for (const std::string& layer : layers) average.finish(layer);
  }
  EXPECT_EQ(averaged_in, (std::vector<int>{3, 6, 9}));
  for (const std::string& layer : layers) EXPECT_EQ(average.exchanges(layer), 3U) << layer;
  check_replicas(net, world, Compared::parameters);
  return values(net);
}

TEST(ParameterAverage, HasOneCounterForAllLayers) {
  run(2, [](Communicator& world) { expect_close(nine_steps(world, true), nine_steps(world, false), 0); });
}

TEST(ParameterAverage, TakesMixedTypesAndTiedWeights) {
  run(2, [](Communicator& world) {
    at::Tensor single = at::full({3}, 1.0 + world.rank(), at::kFloat), twice = at::full({2}, world.rank(), at::kDouble);
    ParameterAverage average({{"a.w", single}, {"a.v", twice}, {"b.w", single}}, world);
    EXPECT_EQ(average.layers(), std::vector<std::string>{"a"});
    average.now();
    EXPECT_TRUE(single.eq(1.5).all().item<bool>());
    EXPECT_TRUE(twice.eq(0.5).all().item<bool>());
    EXPECT_EQ(average.stats().collectives, 2U);
  });
}

TEST(ParameterAverage, SaysWhatWasForgotten) {
  run(1, [](Communicator& world) {
    Net net;
    ParameterAverage average(net, world);
    average.next_step();
    average.start("fc2");
    EXPECT_THAT(caught([&] { average.start("fc2"); }).what(), HasSubstr("'fc2' was begun twice"));
    EXPECT_THAT(caught([&] { average.next_step(); }).what(), HasSubstr("'fc2' is still on its way"));
    EXPECT_THAT(caught([&] { average.start("fc9"); }).what(), HasSubstr("no layer 'fc9'"));
    average.finish("fc2");
    average.finish("fc2");
    EXPECT_THAT(caught([&] { ParameterAverage(net, world, 0); }).what(), HasSubstr("from 1 up"));
  });
}

}  // namespace
}  // namespace tutti::nn
