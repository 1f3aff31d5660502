// Weights that a network uses in two places: they are averaged, sent and compared once. Ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "nn/gradient_sync.hpp"
#include "nn/synchronize.hpp"
#include "tests/nn/small_net.hpp"

namespace tutti::nn {
namespace {

/// Uses one weight to encode and to decode; it is registered under two names.
struct Autoencoder : torch::nn::Module {
  /// `shares_memory`: encoder and decoder are two tensors over the same memory, each with its own gradient.
  explicit Autoencoder(bool shares_memory = false) {
    encoder = register_parameter("encoder", wave({6, 4}, 1));
    bias = register_parameter("bias", wave({4}, 2));
    at::Tensor second = encoder;
    if (shares_memory) second = encoder.detach();
    decoder = register_parameter("decoder", second);
  }
  at::Tensor loss(const at::Tensor& x) const {
    return ((x.matmul(encoder) + bias).tanh().matmul(decoder.t()) - x).pow(2).sum(1).mean();
  }
  at::Tensor encoder, decoder, bias;
};

/// Returns the parameters after four steps. The fourth step adds to the gradients of the third.
std::vector<at::Tensor> trained(Autoencoder& net, GradientSync* sync, int rank, int size) {
  torch::optim::SGD optimizer({net.encoder, net.bias}, torch::optim::SGDOptions(0.1).momentum(0.9));
  if (!net.encoder.is_same(net.decoder)) optimizer.add_param_group({{net.decoder}});
  for (int step = 0; step < 4; ++step) {
    const at::Tensor all = wave({9, 6}, step), mine = rows(all, rank, size);
    if (sync != nullptr && step < 3) sync->zero_grad();
    if (sync == nullptr && step < 3) net.zero_grad();
    if (sync != nullptr) sync->weight(static_cast<double>(mine.size(0)) / 9);
    net.loss(mine).backward();
    if (sync != nullptr) sync->finish();
    optimizer.step();
  }
  return {net.encoder.detach().clone(), net.decoder.detach().clone(), net.bias.detach().clone()};
}

TEST(TiedWeights, TrainAsInOneProcess) {
  for (const bool shares_memory : {false, true}) {
    Autoencoder alone(shares_memory);
    const std::vector<at::Tensor> wanted = trained(alone, nullptr, 0, 1);
    for (const std::size_t cap : {std::size_t{1}, std::size_t{4096}})
      run(2, [&](Communicator& world) {
        Autoencoder net(shares_memory);
        GradientSync sync(net, world, {.first_bytes = cap, .cap_bytes = cap});
        expect_close(trained(net, &sync, world.rank(), 2), wanted);
        check_replicas(net, world);
      });
  }
}

TEST(TiedWeights, AreListedTwiceAndAveragedOnce) {
  run(2, [](Communicator& world) {
    at::Tensor one = at::ones({3}, at::kDouble).requires_grad_();
    GradientSync sync({{"one", one}, {"again", one}}, world);
    EXPECT_EQ(sync.bucket_bytes(0), (3 + 1) * 8U);
    (one * (world.rank() + 1)).sum().backward();
    sync.finish();
    EXPECT_TRUE(one.grad().eq(1.5).all().item<bool>()) << one.grad();
  });
}

TEST(TiedWeights, CountOnceInAverageGradients) {
  run(2, [](Communicator& world) {
    Autoencoder net;
    net.encoder.mutable_grad() = at::full_like(net.encoder, world.rank() + 1.0);
    const GradientReport report = average_gradients(net, world);
    EXPECT_EQ(report.averaged, 1U);
    EXPECT_EQ(report.without_gradient, std::vector<std::string>{"bias"});
    EXPECT_TRUE(net.decoder.grad().eq(1.5).all().item<bool>());
  });
}

// On rank 1 the second tensor is another one over the same memory. This must be detected, so tied weights count once.
TEST(TiedWeights, AreOneParameterOfAReplica) {
  run(2, [](Communicator& world) {
    Autoencoder net(world.rank() == 1);
    try {
      check_replicas(net, world);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 0 has 2 parameters"));
    }
  });
}

TEST(TiedWeights, AreGivenToEveryRank) {
  run(2, [](Communicator& world) {
    Autoencoder net, wanted;
    const at::NoGradGuard no_grad;
    net.encoder.add_(world.rank());
    synchronize_parameters(net, world);
    EXPECT_TRUE(net.encoder.equal(wanted.encoder));
    EXPECT_TRUE(net.decoder.is_same(net.encoder));
    check_replicas(net, world);
  });
}

}  // namespace
}  // namespace tutti::nn
