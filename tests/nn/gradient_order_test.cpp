// The order in which gradients are sent, that each is sent once, and gradients of embedding rows. Ranks are threads.
#include <ATen/ops/embedding.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/compression.hpp"
#include "nn/gradient_sync.hpp"
#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"

namespace tutti::nn {
namespace {

using ::testing::HasSubstr;
using tutti::testing::caught;

/// Parameters are registered in the reverse of their use, so backward reaches the first registered one first.
struct Reversed {
  std::vector<NamedTensor> all{{"last", wave({40}, 1).requires_grad_()},
                               {"middle", wave({40}, 2).requires_grad_()},
                               {"first", wave({40}, 3).requires_grad_()}};
  at::Tensor loss(bool turned = false) const {
    const at::Tensor &low = all[turned ? 0 : 2].second, &high = all[turned ? 2 : 0].second;
    return (((low * 2).sin() * all[1].second).sin() * high).sum();
  }
};

const BucketOptions one_each{.first_bytes = 1, .cap_bytes = 1};

TEST(ReadinessOrder, IsThatOfRankZerosFirstStep) {
  for (const bool turned : {false, true})  // `turned`: rank 1 uses the opposite order
    run(2, [&](Communicator& world) {
      const Reversed net, alone;
      GradientSync sync(net.all, world, one_each);
      for (std::size_t step = 0; step < 4; ++step) {
        sync.zero_grad();
        net.loss(turned && world.rank() == 1).backward();
        sync.finish();
        if (world.rank() == 0) {
          EXPECT_EQ(sync.stats().overlapped, 2 * step) << "step " << step;
        }
      }
      EXPECT_EQ(sync.stats().collectives, 4U * 3);
      for (const auto& [name, tensor] : net.all) EXPECT_EQ(sync.exchanges(name), 4U) << name;
      (alone.loss(false) / 2 + alone.loss(turned) / 2).backward();
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_LE((net.all[i].second.grad() - alone.all[i].second.grad()).abs().max().item<double>(), 1e-12);
    });
}

TEST(ReadinessOrder, MayBeLeftAsItIs) {
  run(2, [&](Communicator& world) {
    const Reversed net;
    GradientSync sync(net.all, world, {.first_bytes = 1, .cap_bytes = 1, .reorder = false});
    for (int step = 0; step < 3; ++step) {
      sync.zero_grad();
      net.loss().backward();
      sync.finish();
    }
    EXPECT_EQ(sync.stats().overlapped, 0U);
  });
}

// Rank 0 has no sample in the first step, so the second step decides the order. The parameter `unused` has no gradient.
TEST(ReadinessOrder, WaitsForRankZeroAndPutsTheUnusedLast) {
  run(2, [&](Communicator& world) {
    const Reversed net;
    std::vector<NamedTensor> all = net.all;
    all.emplace_back("unused", wave({40}, 4).requires_grad_());
    GradientSync sync(all, world, one_each);
    for (int step = 0; step < 3; ++step) {
      sync.zero_grad();
      if (world.rank() == 1 || step > 0) net.loss().backward();
      sync.finish();
      EXPECT_FALSE(all[3].second.grad().defined());
      EXPECT_EQ(sync.state().empty(), step == 0);  // the order is not agreed yet
    }
    const auto order = sync.state().back();
    EXPECT_EQ(order.first, "sync.order");
    EXPECT_TRUE(order.second.equal(at::tensor({0, 1, 2, 3}, at::kLong))) << order.second;
    EXPECT_EQ(sync.stats().overlapped, 3U);  // three of four buckets, in the last step
  });
}

TEST(Audit, NamesTheParameterThatIsNotExchangedOnce) {
  run(1, [&](Communicator& world) {
    const Reversed net;
    GradientSync sync(net.all, world, one_each);
    net.loss().backward();
    std::string said = "nothing was thrown";
    try {
      const auto quiet = sync.no_sync();
      net.loss().backward();  // would change gradients that are being sent
    } catch (const std::exception& error) {
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr("the gradient of 'last' arrived twice"));
    net.all[1].second.mutable_grad() = at::ones({40}, at::kDouble);
    EXPECT_THAT(caught([&] { sync.finish(); }).what(), HasSubstr("the gradient of 'middle' was replaced"));
    EXPECT_THAT(caught([&] { static_cast<void>(sync.exchanges("nobody")); }).what(), HasSubstr("'nobody'"));
  });
}

at::Tensor looked_up(const at::Tensor& table, int rank, int step) {
  const at::Tensor places = at::tensor({rank, 3, rank + step, 3}, at::kLong);
  return at::embedding(table, places, -1, false, true);
}

TEST(SparseRows, EqualTheDenseMean) {
  run(3, [&](Communicator& world) {
    at::Tensor table = wave({9, 4}, 1).requires_grad_(), weight = wave({4}, 2).requires_grad_(),
               unused = wave({9, 4}, 3).requires_grad_();
    GradientSync sync({{"table", table}, {"weight", weight}, {"unused", unused}}, world,
                      {.compression = {}, .sparse = {"table", "unused"}});
    for (int step = 0; step < 3; ++step) {
      at::Tensor whole = table.detach().clone().requires_grad_();
      for (int r = 0; r < 3; ++r)
        if (step < 2 || r > 0) (looked_up(whole, r, step) * weight.detach()).pow(2).sum().mul(0.2 * (r + 1)).backward();
      sync.zero_grad();
      sync.weight(0.2 * (world.rank() + 1));
      if (step < 2 || world.rank() > 0) (looked_up(table, world.rank(), step) * weight).pow(2).sum().backward();
      sync.finish();
      ASSERT_TRUE(table.grad().is_sparse());
      EXPECT_LE((table.grad().to_dense() - whole.grad().to_dense()).abs().max().item<double>(), 1e-12);
      EXPECT_LT(table.grad()._nnz(), 9);
      EXPECT_FALSE(unused.grad().defined());
    }
  });
}

TEST(SparseRows, SayWhatToSet) {
  run(2, [&](Communicator& world) {
    at::Tensor table = wave({9, 4}, 1).requires_grad_();
    const std::vector<NamedTensor> all{{"table", table}};
    GradientSync dense(all, world);
    std::string said = "nothing was thrown";
    try {
      looked_up(table, 0, 0).sum().backward();
    } catch (const std::exception& error) {
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr("the gradient of 'table' is sparse: name it in BucketOptions::sparse"));
  });
  run(2, [&](Communicator& world) {
    at::Tensor table = wave({9, 4}, 1).requires_grad_();
    const std::vector<NamedTensor> all{{"table", table}};
    EXPECT_THAT(caught([&] { GradientSync(all, world, {.sparse = {"tabel"}}); }).what(), HasSubstr("1 names 0 were"));
    GradientSync sync(all, world, {.sparse = {"table"}});
    (world.rank() == 1 ? table.sum() : looked_up(table, 0, 0).sum()).backward();
    EXPECT_THAT(caught([&] { sync.finish(); }).what(), HasSubstr("'table' has a dense gradient on rank 1"));
  });
}

}  // namespace
}  // namespace tutti::nn
