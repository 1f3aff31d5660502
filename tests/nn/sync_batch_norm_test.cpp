// Normalising over the samples of all ranks, compared with BatchNorm over all samples on one rank. Ranks are threads.
#include "nn/sync_batch_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "nn/gradient_sync.hpp"
#include "nn/synchronize.hpp"
#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"

namespace tutti::nn {
namespace {

using ::testing::HasSubstr;
using tutti::testing::caught;

constexpr double near = 1e-12;

double distance(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

template <class Norm>
void prepare(Norm& norm) {
  norm->to(at::kDouble);
  const at::NoGradGuard no_grad;
  norm->weight.copy_(wave(norm->weight.sizes(), 5) + 1);
  norm->bias.copy_(wave(norm->bias.sizes(), 6));
}

/// The results of a few steps over one rank's rows, or over all rows.
struct Seen {
  std::vector<at::Tensor> outputs, inputs, weights, biases, means, variances;
};

template <class Norm>
Seen steps(Norm& norm, at::IntArrayRef shape, int rank, int size) {
  Seen seen;
  for (int step = 0; step < 3; ++step) {
    norm->zero_grad();
    const at::Tensor x = rows(wave(shape, step).mul(3).add(step), rank, size).detach().requires_grad_();
    const at::Tensor y = norm->forward(x);
    (y * y * rows(wave(shape, step + 50), rank, size)).sum().backward();
    seen.outputs.push_back(y.detach());
    seen.inputs.push_back(x.grad());
    seen.weights.push_back(norm->weight.grad().clone());
    seen.biases.push_back(norm->bias.grad().clone());
    seen.means.push_back(norm->running_mean.clone());
    seen.variances.push_back(norm->running_var.clone());
  }
  return seen;
}

template <class Reference>
void expect_the_union(const torch::nn::BatchNormOptions& options, const std::vector<std::int64_t>& shape) {
  Reference whole(options);
  prepare(whole);
  const Seen wanted = steps(whole, shape, 0, 1);
  for (const int size : {1, 2, 4}) {
    run(size, [&](Communicator& world) {
      SyncBatchNorm norm(options);
      prepare(norm);
      EXPECT_EQ(convert_sync_batch_norm(*norm, world), 1U);
      const Seen got = steps(norm, shape, world.rank(), world.size());
      for (std::size_t step = 0; step < 3; ++step) {
        SCOPED_TRACE(std::to_string(size) + " ranks, step " + std::to_string(step));
        EXPECT_LE(distance(got.outputs[step], rows(wanted.outputs[step], world.rank(), size)), near);
        EXPECT_LE(distance(got.inputs[step], rows(wanted.inputs[step], world.rank(), size)), near);
        EXPECT_LE(distance(got.means[step], wanted.means[step]), near);
        EXPECT_LE(distance(got.variances[step], wanted.variances[step]), near);
        for (const auto list : {&Seen::weights, &Seen::biases}) {
          at::Tensor all = (got.*list)[step];
          world.allreduce(Buffer(all.data_ptr(), static_cast<std::size_t>(all.numel()), DType::f64), sum).wait();
          EXPECT_LE(distance(all, (wanted.*list)[step]), near);
        }
      }
    });
  }
}

// Four ranks have 2, 2, 2 and 1 of seven samples. With three samples, one rank has none.
TEST(SyncBatchNorm, EqualsBatchNormOverAllSamples) {
  torch::nn::BatchNormOptions cumulative(2);
  cumulative.momentum().reset();
  expect_the_union<torch::nn::BatchNorm1d>(torch::nn::BatchNormOptions(3), {7, 3});
  expect_the_union<torch::nn::BatchNorm1d>(torch::nn::BatchNormOptions(3), {3, 3});
  expect_the_union<torch::nn::BatchNorm2d>(torch::nn::BatchNormOptions(2).eps(1e-3).momentum(0.3), {7, 2, 3, 2});
  expect_the_union<torch::nn::BatchNorm2d>(cumulative, {3, 2, 2, 2});
}

TEST(SyncBatchNorm, IsABatchNormUntilItIsConnectedAndWhileEvaluating) {
  torch::nn::BatchNorm2d plain(2);
  SyncBatchNorm norm(2);
  for (int step = 0; step < 2; ++step) {
    const at::Tensor x = wave({5, 2, 3, 3}, step).to(at::kFloat);
    EXPECT_TRUE(norm->forward(x).equal(plain->forward(x)));
  }
  EXPECT_TRUE(norm->running_var.equal(plain->running_var));
  EXPECT_EQ(norm->num_batches_tracked.item<int>(), 2);
  run(2, [&](Communicator& world) {
    SyncBatchNorm mine(2);
    mine->running_mean.copy_(plain->running_mean);
    mine->running_var.copy_(plain->running_var);
    convert_sync_batch_norm(*mine, world);
    mine->eval();
    const at::Tensor x = wave({2, 2, 3, 3}, world.rank()).to(at::kFloat);  // differs by rank: eval() sends nothing
    const at::Tensor scale = (plain->running_var + 1e-5).rsqrt().view({2, 1, 1});
    EXPECT_LE(distance(mine->forward(x), (x - plain->running_mean.view({2, 1, 1})) * scale), 1e-6);
  });
}

/// A module with two nested Sequentials.
struct Stack : torch::nn::Module {
  Stack() {
    low = register_module("low", torch::nn::Sequential(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3)));
    high = register_module("high", torch::nn::Sequential(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2)));
    to(at::kDouble);
    const at::NoGradGuard no_grad;
    double salt = 0;
    for (at::Tensor& each : parameters()) each.copy_(wave(each.sizes(), ++salt));
  }
  at::Tensor forward(const at::Tensor& x) { return high->forward(low->forward(x)); }
  torch::nn::Sequential low{nullptr}, high{nullptr};
};

TEST(SyncBatchNorm, TakesThePlaceOfBatchNormsInASequential) {
  const at::Tensor batch = wave({5, 4}, 3);
  Stack whole;
  const at::Tensor wanted = whole.forward(batch);
  wanted.pow(3).mean().backward();
  run(2, [&](Communicator& world) {
    Stack net;
    const auto before = named_state(net);
    before[3].second.set_requires_grad(false);  // the bias of the first norm
    EXPECT_EQ(convert_sync_batch_norm(net, world), 2U);
    const auto after = named_state(net);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].first, before[i].first);
      EXPECT_TRUE(after[i].second.is_same(before[i].second)) << after[i].first;
    }
    EXPECT_FALSE(after[3].second.requires_grad());
    after[3].second.set_requires_grad(true);
    GradientSync sync(net, world);
    const at::Tensor mine = rows(batch, world.rank(), 2);
    const at::Tensor output = net.forward(mine);
    EXPECT_LE(distance(output, rows(wanted.detach(), world.rank(), 2)), near);
    (output.pow(3).mean() * (static_cast<double>(mine.size(0)) / 5 * 2)).backward();  // scaled by the share
    sync.finish();
    expect_close(gradients(net), gradients(whole));
    check_replicas(net, world);
  });
}

TEST(SyncBatchNorm, SaysWhatItCannotConvertAndWhatItCannotNormalise) {
  run(2, [](Communicator& world) {
    Net net;  // its norm is a member, which cannot be converted
    EXPECT_THAT(caught([&] { convert_sync_batch_norm(net, world); }).what(),
                ::testing::AllOf(HasSubstr("'norm' is a BatchNorm"), HasSubstr("SyncBatchNorm")));
    SyncBatchNorm norm(2);
    convert_sync_batch_norm(*norm, world);
    EXPECT_THAT(caught([&] { norm->forward(at::ones({world.rank(), 2})); }).what(), HasSubstr("more than one value"));
    EXPECT_THAT(caught([&] { norm->forward(at::ones({4, 3})); }).what(), HasSubstr("2 channels"));
  });
}

}  // namespace
}  // namespace tutti::nn
