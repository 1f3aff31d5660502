// Compressed gradients: the values that arrive, the rest for later steps, and the bytes sent. Ranks are threads.
#include "nn/compression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "nn/gradient_sync.hpp"
#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"

namespace tutti::nn {
namespace {

using ::testing::HasSubstr;
using tutti::testing::caught;
using Tensors = std::vector<at::Tensor>;

std::vector<NamedTensor> parameters_of(const Tensors& values) {
  std::vector<NamedTensor> all;
  for (const at::Tensor& each : values)
    all.emplace_back("p" + std::to_string(all.size()), at::zeros_like(each).requires_grad_());
  return all;
}

/// Makes one step in which the rank's gradients are `values`. Returns the gradients after the exchange.
Tensors step(GradientSync& sync, const std::vector<NamedTensor>& parameters, const Tensors& values) {
  sync.zero_grad();
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < values.size(); ++i)
    loss = loss + (parameters[i].second.to(at::kDouble) * values[i].to(at::kDouble)).sum();
  loss.backward();
  sync.finish();
  Tensors found;
  for (const auto& [name, parameter] : parameters) found.push_back(parameter.grad().clone());
  return found;
}

at::Tensor mean_of(int size, const std::function<at::Tensor(int rank)>& value) {
  at::Tensor sum = value(0).clone();
  for (int r = 1; r < size; ++r) sum += value(r);
  return sum / size;
}

at::Tensor named(const GradientSync& sync, const std::string& name) {
  for (const auto& [each, tensor] : sync.state())
    if (each == name) return tensor.clone();
  ADD_FAILURE() << "no " << name;
  return {};
}

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

template <class Half>
void expect_rounded(DType wire) {
  for (const auto type : {at::kFloat, at::kDouble})
    run(2, [&](Communicator& world) {
      const auto value = [&](int rank) { return (wave({37}, rank) * 100).to(type); };
      const Tensors mine{value(world.rank())};
      const auto parameters = parameters_of(mine);
      GradientSync sync(parameters, world, {.compression = cast_compression(wire)});
      const at::Tensor got = step(sync, parameters, mine)[0].to(at::kFloat);
      const at::Tensor a = value(0).to(at::kFloat), b = value(1).to(at::kFloat);
      for (int i = 0; i < 37; ++i) {
        const float sum = float(Half(a.data_ptr<float>()[i])) + float(Half(b.data_ptr<float>()[i]));
        EXPECT_EQ(got.data_ptr<float>()[i], float(Half(sum / 2))) << i;
      }
      EXPECT_EQ(sync.stats().bytes, 37 * 2U);
    });
}

TEST(Casts, GiveTheMeanOfWhatWasRoundedRounded) {
  expect_rounded<f16>(DType::f16);
  expect_rounded<bf16>(DType::bf16);
  EXPECT_THAT(caught([] { cast_compression(DType::i8); }).what(), HasSubstr("f16 or bf16, not to i8"));
}

// Each step sends one of four elements. The expected values were computed by hand.
TEST(TopK, SendsLaterWhatItLeftOut) {
  const double gradients[2][4] = {{4, 1, 0, 1.5}, {0, -3, 1, 2}};
  const double means[3][4] = {{2, -1.5, 0, 0}, {2, 0, 0, 2}, {0, -3, 0, 2.25}};
  const double left[2][4] = {{4, 3, 0, 0}, {0, 0, 3, 2}};
  const auto vector = [](const double(&values)[4]) { return at::tensor(at::ArrayRef<double>(values), at::kDouble); };
  run(2, [&](Communicator& world) {
    const Tensors mine{vector(gradients[world.rank()])};
    const auto parameters = parameters_of(mine);
    GradientSync sync(parameters, world, {.compression = top_k_compression(0.25)});
    for (const auto& mean : means) EXPECT_TRUE(step(sync, parameters, mine)[0].equal(vector(mean)));
    EXPECT_TRUE(named(sync, "p0.error").equal(vector(left[world.rank()])));
    EXPECT_EQ(sync.stats().bytes, 3 * 16U);  // a value of 8 bytes and an index of 4, padded to a multiple of 8
  });
}

TEST(TopK, OfEverythingIsTheMean) {
  run(3, [](Communicator& world) {
    Net plain, whole;
    const BucketOptions none{.first_bytes = 256, .cap_bytes = 1024};
    BucketOptions all = none;
    all.compression = top_k_compression(1);
    GradientSync first(plain, world, none), second(whole, world, all);
    for (int step = 0; step < 3; ++step) {
      first.zero_grad();
      second.zero_grad();
      loss_of(plain, wave({4, 6}, step + 10 * world.rank())).backward();
      loss_of(whole, wave({4, 6}, step + 10 * world.rank())).backward();
      first.finish();
      second.finish();
      expect_close(gradients(whole), gradients(plain), 1e-15);
    }
  });
  EXPECT_THAT(caught([] { top_k_compression(0); }).what(), HasSubstr("above 0"));
}

/// A rank's gradients in a step: a tall and a wide matrix, those of a convolution, and a vector.
Tensors shapes(int rank, int step) {
  const double salt = 7 * rank + 3 * step;
  return {wave({6, 4}, salt), wave({4, 6}, salt + 1), wave({4, 3, 2, 2}, salt + 2).pow(2), wave({5}, salt + 3)};
}

TEST(PowerSgd, OfFullRankIsTheMean) {
  run(3, [](Communicator& world) {
    const auto parameters = parameters_of(shapes(0, 0));
    GradientSync sync(parameters, world, {.compression = power_sgd_compression({.rank = 6, .least_saving = 0})});
    for (int k = 0; k < 3; ++k) {
      const Tensors got = step(sync, parameters, shapes(world.rank(), k));
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(distance(got[i], mean_of(3, [&](int r) { return shapes(r, k)[i]; })), 1e-10) << i;
    }
    // Rank 4 sends 4 columns of 6 + 4 elements per matrix, 4 of 4 + 12 for the convolution, and the vector unchanged.
    EXPECT_EQ(sync.stats().bytes, 3 * 8U * (4 * 10 + 4 * 10 + 4 * 16 + 5));
  });
}

TEST(PowerSgd, MakesGoodLaterWhatItsProductLacks) {
  run(3, [](Communicator& world) {
    const auto parameters = parameters_of(shapes(0, 0));
    GradientSync sync(parameters, world, {.compression = power_sgd_compression({.rank = 1})});
    Tensors came, wanted;
    for (const at::Tensor& each : shapes(0, 0)) {
      came.push_back(at::zeros_like(each));
      wanted.push_back(at::zeros_like(each));
    }
    double farthest = 0;
    for (int k = 0; k < 5; ++k) {
      const Tensors got = step(sync, parameters, shapes(world.rank(), k));
      for (std::size_t i = 0; i < got.size(); ++i) {
        came[i] += got[i];
        wanted[i] += mean_of(3, [&](int r) { return shapes(r, k)[i]; });
      }
      farthest = std::max(farthest, distance(came[0], wanted[0]));
    }
    EXPECT_GT(farthest, 1e-3);  // single steps differ, because rank 1 is too low
    for (std::size_t i = 0; i < 3; ++i) {
      at::Tensor left = named(sync, "p" + std::to_string(i) + ".error");
      world.allreduce(Buffer(left.data_ptr(), static_cast<std::size_t>(left.numel()), DType::f64), avg).wait();
      EXPECT_LE(distance(came[i] + left.view(came[i].sizes()), wanted[i]), 1e-10) << i;
    }
    EXPECT_LE(distance(came[3], wanted[3]), 1e-10);
    EXPECT_EQ(sync.stats().bytes, 5 * 8U * (10 + 10 + 16 + 5));
  });
}

// A product of two vectors is exact after one step, and its row is the matrix that the next step begins with.
TEST(PowerSgd, BeginsWithTheLastStepsMatrix) {
  run(2, [](Communicator& world) {
    const at::Tensor column = wave({6, 1}, 1), row = wave({4, 1}, 2), product = column.mm(row.t());
    const auto parameters = parameters_of({product});
    GradientSync sync(parameters, world, {.compression = power_sgd_compression({.rank = 1})});
    EXPECT_LE(distance(step(sync, parameters, {product})[0], product), 1e-12);
    const at::Tensor q = named(sync, "p0.q");
    EXPECT_NEAR(std::abs((q * row).sum().item<double>()), (q.norm() * row.norm()).item<double>(), 1e-12);
  });
}

TEST(PowerSgd, LeavesAloneWhatWouldNotBecomeSmaller) {
  run(2, [](Communicator& world) {
    const auto parameters = parameters_of(shapes(0, 0));
    GradientSync sync(parameters, world, {.compression = power_sgd_compression({.rank = 2, .least_saving = 1.4})});
    static_cast<void>(step(sync, parameters, shapes(world.rank(), 0)));
    // 24 elements are less than 1.4 times 2 (6 + 4), so they are not compressed; 48 are more than 1.4 times 2 (4 + 12).
    EXPECT_EQ(sync.stats().bytes, 8U * (24 + 24 + 32 + 5));
  });
  EXPECT_THAT(caught([] { power_sgd_compression({.rank = 0}); }).what(), HasSubstr("rank from 1 up"));
}

TEST(Compression, GoesOnFromItsStateBitForBit) {
  for (const auto& compression : {top_k_compression(0.2), power_sgd_compression({.rank = 1})})
    run(2, [&](Communicator& world) {
      const auto parameters = parameters_of(shapes(0, 0));
      const BucketOptions options{.first_bytes = 200, .cap_bytes = 400, .compression = compression};
      GradientSync sync(parameters, world, options);
      for (int k = 0; k < 2; ++k) static_cast<void>(step(sync, parameters, shapes(world.rank(), k)));
      std::vector<NamedTensor> kept = sync.state();
      for (NamedTensor& each : kept) each.second = each.second.clone();
      const Tensors wanted = step(sync, parameters, shapes(world.rank(), 2));
      const auto again = parameters_of(shapes(0, 0));
      GradientSync resumed(again, world, options);
      resumed.load_state(kept);
      const Tensors got = step(resumed, again, shapes(world.rank(), 2));
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(wanted[i])) << i;
      kept.erase(kept.begin());
      EXPECT_THAT(caught([&] { resumed.load_state(kept); }).what(), HasSubstr(".error' of this shape"));
    });
}

/// Halves the gradients, and counts in its state how often it did so.
class Halving final : public Compression {
 public:
  class One final : public Codec {
   public:
    explicit One(FlatBucket bucket) : bucket_(std::move(bucket)) {
      for (const auto& [name, part] : bucket_.parts) counts_.emplace_back(name + ".halved", at::zeros({}, at::kLong));
    }
    void start(Exchange& exchange) override { exchange.allreduce(bucket_.gradients.div_(2), avg); }
    bool advance(Exchange&) override {
      for (NamedTensor& each : counts_) each.second.add_(1);
      return true;
    }
    std::vector<NamedTensor> state() const override { return counts_; }

   private:
    FlatBucket bucket_;
    std::vector<NamedTensor> counts_;
  };
  std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange&) const override {
    return std::make_unique<One>(bucket);
  }
  std::string describe() const override { return "halving"; }
};

// Parameters are registered in the reverse of their use. So buckets are rebuilt after the first step, and states move.
TEST(Compression, OfAUsersOwnKeepsItsStateWhenBucketsChange) {
  run(2, [](Communicator& world) {
    at::Tensor high = wave({20}, 1).requires_grad_(), low = wave({20}, 2).requires_grad_();
    GradientSync sync({{"high", high}, {"low", low}}, world,
                      {.first_bytes = 1, .cap_bytes = 1, .compression = std::make_shared<Halving>()});
    for (int k = 0; k < 3; ++k) {
      sync.zero_grad();
      ((low * 1).sin() * high).sum().backward();
      sync.finish();
    }
    EXPECT_EQ(sync.stats().overlapped, 2U);  // one bucket in the second step and one in the third
    EXPECT_EQ(named(sync, "low.halved").item<int>(), 3);
    EXPECT_EQ(named(sync, "high.halved").item<int>(), 3);
    EXPECT_LE(distance(high.grad(), low.detach().sin() / 2), 1e-12);
  });
}

TEST(Compression, AgreesOnAbsentGradients) {
  run(2, [](Communicator& world) {
    at::Tensor both = at::ones({4}, at::kDouble).requires_grad_(), one = at::ones({4}, at::kDouble).requires_grad_(),
               none = at::ones({4}, at::kDouble).requires_grad_();
    GradientSync sync({{"both", both}, {"one", one}, {"none", none}}, world, {.compression = top_k_compression(1)});
    for (int k = 0; k < 2; ++k) {
      sync.zero_grad();
      (world.rank() == 0 ? both.sum() + one.sum() : both.sum()).backward();
      sync.finish();
      EXPECT_TRUE(both.grad().eq(1).all().item<bool>());
      ASSERT_TRUE(one.grad().defined());
      EXPECT_TRUE(one.grad().eq(0.5).all().item<bool>());
      EXPECT_FALSE(none.grad().defined());
    }
  });
}

}  // namespace
}  // namespace tutti::nn
