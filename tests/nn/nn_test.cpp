// Synchronising modules and gradients between ranks, compared with the same computation on one rank. Ranks are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "nn/gradient_sync.hpp"
#include "nn/synchronize.hpp"
#include "nn/tensor.hpp"
#include "tests/nn/small_net.hpp"

namespace tutti::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SynchronizeParameters, GivesEveryRankRootsParametersAndBuffers) {
  for (int root : {0, 2}) {
    run(3, [root](Communicator& world) {
      Net net(world.rank() * 10), wanted(root * 10);
      net.fc2->weight.set_data(net.fc2->weight.detach().t().contiguous().t());  // not contiguous
      synchronize_parameters(net, world, root);
      for (std::size_t i = 0; i < net.parameters().size(); ++i)
        EXPECT_TRUE(net.parameters()[i].equal(wanted.parameters()[i])) << i;
      for (std::size_t i = 0; i < net.buffers().size(); ++i)
        EXPECT_TRUE(net.buffers()[i].equal(wanted.buffers()[i])) << i;
      check_replicas(net, world);
    });
  }
}

TEST(CheckReplicas, NamesTheFirstParameterThatDiffersAndWhere) {
  run(3, [](Communicator& world) {
    Net net;
    check_replicas(net, world);
    if (world.rank() == 1) {
      const at::NoGradGuard no_grad;
      net.fc2->weight[3][2].mul_(1 + 1e-15);
      net.fc3->bias.add_(1);
    }
    std::string said = "nothing was thrown";
    try {
      check_replicas(net, world);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::mismatch);
      said = error.what();
    }
    EXPECT_THAT(said, AllOf(HasSubstr("'fc2.weight'"), HasSubstr("rank 1 ")));
  });
}

// Compares hashes of pieces, for every element type, also for differences that would not change a plain sum.
TEST(CheckReplicas, SeesEveryBit) {
  run(2, [](Communicator& world) {
    const auto differs = [&](const std::function<void(torch::nn::Module&)>& change, at::ScalarType type) {
      struct Holder : torch::nn::Module {
        explicit Holder(at::ScalarType type) {
          register_buffer("data", wave({3 << 19}, 1).mul(50).to(type));  // more than one piece
          register_buffer("none", at::empty({0}));
        }
      } module(type);
      if (world.rank() == 1) change(module);
      try {
        check_replicas(module, world);
        return false;
      } catch (const Error&) {
        return true;
      }
    };
    const at::NoGradGuard no_grad;
    for (const auto type : {at::kByte, at::kBool, at::kHalf, at::kBFloat16, at::kInt, at::kFloat, at::kLong,
                            at::kDouble, at::kComplexDouble}) {
      EXPECT_FALSE(differs([](torch::nn::Module&) {}, type)) << type;
      EXPECT_TRUE(differs(
          [](torch::nn::Module& module) {
            at::Tensor bytes = module.buffers()[0].view(at::kByte);
            bytes[-1].bitwise_xor_(1);
          },
          type))
          << type;
    }
    EXPECT_TRUE(differs(
        [](torch::nn::Module& module) {
          at::Tensor data = module.buffers()[0];
          const at::Tensor first = data[7].clone();
          data[7].copy_(data[8]);
          data[8].copy_(first);
        },
        at::kFloat));
  });
}

TEST(CheckReplicas, SeesOtherBuffersAndOtherModules) {
  run(2, [](Communicator& world) {
    Net net;
    if (world.rank() == 1) net.norm->num_batches_tracked.add_(1);
    try {
      check_replicas(net, world);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("'norm.num_batches_tracked'"));
    }
    torch::nn::Linear small(torch::nn::LinearOptions(2, 2).bias(world.rank() == 0));
    EXPECT_THROW(check_replicas(*small, world), Error);
  });
}

TEST(AverageGradients, AreMeansAndAbsentOnesAreAgreedOn) {
  run(4, [](Communicator& world) {
    Net net;
    net.fc1->weight.mutable_grad() = at::full_like(net.fc1->weight, world.rank() + 1.0);
    if (world.rank() == 2) net.fc2->bias.mutable_grad() = at::full_like(net.fc2->bias, 8.0);
    const GradientReport report = average_gradients(net, world);
    EXPECT_EQ(report.averaged, 2U);
    EXPECT_EQ(report.without_gradient, (std::vector<std::string>{"fc1.bias", "fc2.weight", "fc3.weight", "fc3.bias"}));
    EXPECT_TRUE(net.fc1->weight.grad().eq(2.5).all().item<bool>());
    EXPECT_TRUE(net.fc2->bias.grad().eq(2.0).all().item<bool>());
    EXPECT_FALSE(net.fc3->bias.grad().defined());
  });
}

TEST(GradientSync, EqualsTheGradientOfTheWholeBatch) {
  for (int size = 1; size <= 4; ++size)
    for (std::int64_t batch : {12, 10, 3, 1}) {
      std::vector<std::vector<at::Tensor>> wanted;
      for (int step = 0; step < 3; ++step) {
        Net net;
        loss_of(net, wave({batch, 6}, step)).backward();
        wanted.push_back(gradients(net));
      }
      run(size, [&](Communicator& world) {
        Net net;
        GradientSync sync(net, world, {.first_bytes = 256, .cap_bytes = 1024});
        for (int step = 0; step < 3; ++step) {
          const at::Tensor mine = rows(wave({batch, 6}, step), world.rank(), world.size());
          sync.zero_grad();
          sync.weight(static_cast<double>(mine.size(0)) / static_cast<double>(batch));
          if (mine.size(0) > 0) loss_of(net, mine).backward();
          sync.finish();
          expect_close(gradients(net), wanted[static_cast<std::size_t>(step)]);
        }
      });
    }
}

TEST(GradientSync, WithoutAWeightIsThePlainMean) {
  run(3, [](Communicator& world) {
    Net net, alone;
    GradientSync sync(net, world);
    loss_of(net, wave({4, 6}, world.rank())).backward();
    sync.finish();
    for (int r = 0; r < 3; ++r) loss_of(alone, wave({4, 6}, r)).div(3).backward();
    expect_close(gradients(net), gradients(alone));
  });
}

TEST(GradientSync, BucketsLeaveWhileBackwardRunsAndGradientsLieInThem) {
  run(2, [](Communicator& world) {
    Net net;
    GradientSync sync(net, world, {.first_bytes = 256, .cap_bytes = 1200});
    // From the last layer: fc3 has 24+3 doubles, fc2 128+8, fc1 96+16, and each parameter adds one more double.
    ASSERT_EQ(sync.buckets(), 3U);
    EXPECT_EQ(sync.bucket_bytes(0), (3 + 24 + 2) * 8U);
    EXPECT_EQ(sync.bucket_bytes(1), (8 + 128 + 2) * 8U);
    EXPECT_EQ(sync.bucket_bytes(2), (16 + 96 + 2) * 8U);
    std::vector<void*> places;
    for (int step = 0; step < 4; ++step) {
      sync.zero_grad();
      loss_of(net, wave({4, 6}, step)).backward();
      EXPECT_EQ(sync.stats().collectives, 3U * (static_cast<std::size_t>(step) + 1)) << "before finish()";
      sync.finish();
      std::vector<void*> now;
      for (const at::Tensor& each : net.parameters()) now.push_back(each.grad().data_ptr());
      if (step > 0) {
        EXPECT_EQ(now, places);
      }
      places = now;
      EXPECT_EQ(static_cast<double*>(now[5]) + 3, static_cast<double*>(now[4]));  // bias, then weight
    }
    EXPECT_EQ(sync.stats().collectives, 12U);
    EXPECT_EQ(sync.stats().overlapped, 8U);
  });
}

TEST(GradientSync, AgreesOnParametersThatWereNotUsed) {
  run(3, [](Communicator& world) {
    Net net;
    GradientSync sync(net, world, {.first_bytes = 256, .cap_bytes = 1024});
    for (int step = 0; step < 3; ++step) {
      sync.zero_grad();
      // Rank 1 uses fc1 only, the others use fc1 and fc2. No rank uses fc3.
      const at::Tensor hidden = net.fc1->forward(wave({4, 6}, step));
      const at::Tensor loss = world.rank() == 1 ? hidden.sum() : net.fc2->forward(hidden).sum();
      loss.backward();
      EXPECT_EQ(net.fc2->weight.grad().defined(), world.rank() != 1);
      sync.finish();
      EXPECT_FALSE(net.fc3->weight.grad().defined());
      ASSERT_TRUE(net.fc2->bias.grad().defined());
      EXPECT_LE((net.fc2->bias.grad() - 4 * 2.0 / 3).abs().max().item<double>(), 1e-12);
    }
  });
}

TEST(GradientSync, SendsInOneOrderWhateverOrderRanksTake) {
  run(2, [](Communicator& world) {
    at::Tensor a = wave({100}, 1).requires_grad_(), b = wave({100}, 2).requires_grad_(),
               c = wave({100}, 3).requires_grad_();
    GradientSync sync({{"a", a}, {"b", b}, {"c", c}}, world, {.first_bytes = 1, .cap_bytes = 1});
    ASSERT_EQ(sync.buckets(), 3U);
    // A chain of parameters: backward reaches the end of the chain first. The ranks have opposite chains.
    at::Tensor loss = world.rank() == 0 ? ((a * 1).sin() * b).sin() * c : ((c * 1).sin() * b).sin() * a;
    loss.sum().backward();
    EXPECT_GE(sync.stats().collectives, 1U);
    sync.finish();
    std::vector<at::Tensor> got{a.grad().clone(), b.grad().clone(), c.grad().clone()};
    at::Tensor x = a.detach().clone().requires_grad_(), y = b.detach().clone().requires_grad_(),
               z = c.detach().clone().requires_grad_();
    (((x.sin() * y).sin() * z).sum() / 2 + ((z.sin() * y).sin() * x).sum() / 2).backward();
    expect_close(got, {x.grad(), y.grad(), z.grad()});
  });
}

TEST(GradientSync, AccumulatesQuietlyUnderNoSync) {
  run(2, [](Communicator& world) {
    Net net, alone;
    GradientSync sync(net, world);
    for (int step = 0; step < 2; ++step) {
      sync.zero_grad();
      const std::size_t before = sync.stats().collectives;
      {
        const auto quiet = sync.no_sync();
        loss_of(net, wave({4, 6}, world.rank())).backward();
        loss_of(net, wave({4, 6}, world.rank() + 10)).backward();
        EXPECT_EQ(sync.stats().collectives, before);
      }
      loss_of(net, wave({4, 6}, world.rank() + 20)).backward();
      sync.finish();
    }
    for (int r = 0; r < 2; ++r)
      for (int part : {0, 10, 20}) loss_of(alone, wave({4, 6}, r + part)).div(2).backward();
    expect_close(gradients(net), gradients(alone));
  });
}

TEST(GradientSync, RefusesASecondBackwardBeforeFinish) {
  run(1, [](Communicator& world) {
    Net net;
    GradientSync sync(net, world);
    loss_of(net, wave({4, 6}, 0)).backward();
    try {
      loss_of(net, wave({4, 6}, 0)).backward();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("no_sync()"));
    }
  });
}

TEST(GradientSync, TakesMixedTypesAndLeavesFrozenParametersAlone) {
  run(2, [](Communicator& world) {
    at::Tensor single = at::ones({5}, at::kFloat).requires_grad_(), twice = at::ones({5}, at::kDouble).requires_grad_(),
               brief = at::ones({5}, at::kBFloat16).requires_grad_(), frozen = at::ones({5});
    GradientSync sync({{"single", single}, {"twice", twice}, {"brief", brief}, {"frozen", frozen}}, world);
    EXPECT_EQ(sync.buckets(), 3U);
    const double factor = world.rank() + 1;
    (single.sum() * factor + twice.sum() * factor + brief.to(at::kFloat).sum() * factor).backward();
    sync.finish();
    for (const at::Tensor& each : {single, twice, brief})
      EXPECT_TRUE(each.grad().to(at::kFloat).eq(1.5).all().item<bool>());
    EXPECT_FALSE(frozen.grad().defined());
  });
}

TEST(GradientSync, MayGoBeforeItsGradients) {
  run(2, [](Communicator& world) {
    Net net;
    {
      GradientSync sync(net, world);
      loss_of(net, wave({4, 6}, 0)).backward();
      sync.finish();
    }
    const double before = net.fc1->weight.grad().sum().item<double>();
    EXPECT_TRUE(std::isfinite(before));
    loss_of(net, wave({4, 6}, 0)).backward();  // the hooks are gone, so gradients only accumulate
    EXPECT_NEAR(net.fc1->weight.grad().sum().item<double>(), 2 * before, 1e-9);
  });
}

TEST(Buffer, BorrowsContiguousTensorsOnly) {
  const at::Tensor whole = at::zeros({4, 6}, at::kFloat);
  const Buffer lent = buffer(whole);
  EXPECT_EQ(lent.count, 24U);
  EXPECT_EQ(lent.dtype, DType::f32);
  EXPECT_EQ(static_cast<void*>(lent.data), whole.data_ptr());
  EXPECT_THROW(buffer(whole.t()), Error);
  EXPECT_THROW(buffer(at::zeros({2}, at::kComplexFloat)), Error);
}

}  // namespace
}  // namespace tutti::nn
