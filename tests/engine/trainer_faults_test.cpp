// How a training run handles numbers that are not finite, epochs without validation, and steps that are too small to
// learn from.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <limits>
#include <set>

#include "engine/data/formats/source.hpp"
#include "engine/models/model.hpp"
#include "engine/optimizers/finite.hpp"
#include "engine/optimizers/optimizer.hpp"
#include "tests/engine/trainings.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// 103 random images as numbers. The samples in `train` and `test` have NaNs.
DataSplit with_nan(const std::set<std::size_t>& train, const std::set<std::size_t>& test = {}) {
  DataSplit data = load("random:1x6x6", 103, 1);
  const auto spoil = [&](std::shared_ptr<const Dataset>& part, const std::set<std::size_t>& which) {
    std::vector<double> numbers;
    std::vector<std::int64_t> labels;
    for (std::size_t i = 0; i < part->size(); ++i) {
      const Sample sample = part->get(i);
      const Array image = sample["image"].converted(DType::f64);
      for (const double each : image.as<double>()) numbers.push_back(which.contains(i) ? not_a_number : each / 255);
      labels.push_back(sample["label"].converted(DType::i64).as<std::int64_t>()[0]);
    }
    const auto rows = static_cast<std::int64_t>(part->size());
    part = std::make_shared<ArrayDataset>(
        Fields{{"image", Array(std::move(numbers), {rows, 1, 6, 6})}, {"label", Array(std::move(labels))}});
  };
  spoil(data.train, train);
  spoil(data.test, test);
  return data;
}

/// Rank 0's result, or the error that ended the training of all ranks.
struct Outcome {
  TrainResult result;
  std::string failure;
};

Outcome outcome_of(const std::vector<Network>& networks, const Config& config, const DataSplit& data) {
  std::vector<Outcome> found(networks.size());
  tutti::testing::run_ranks(
      static_cast<int>(networks.size()), tutti::testing::test_settings("shm"), [&](Communicator& world) {
        Outcome& mine = found[static_cast<std::size_t>(world.rank())];
        try {
          mine.result = train(config, world, networks[static_cast<std::size_t>(world.rank())], data);
        } catch (const DivergedError& error) {
          mine = {error.result, error.what()};
        } catch (const Error& error) {
          mine.failure = error.what();
        }
      });
  for (const Outcome& each : found) EXPECT_EQ(each.failure, found[0].failure);
  return found[0];
}

std::vector<Network> networks_for(int ranks, const Config& config, const DataSplit& data) {
  std::vector<Network> networks;
  for (int r = 0; r < ranks; ++r) networks.push_back(make_network(config, data));
  return networks;
}

Config plain_config() {
  Config config = small_config();
  config.data.shift = 0;
  config.optimizer.name = "sgd";
  return config;
}

std::vector<std::size_t> steps_without_number(const std::vector<double>& losses) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (!std::isfinite(losses[i])) found.push_back(i);
  return found;
}

std::vector<double> parameters_of(const Network& network) {
  std::vector<double> all;
  for (const auto& [name, tensor] : tensors_of(network).parameters) {
    const at::Tensor flat = tensor.detach().to(at::kDouble).flatten().contiguous();
    all.insert(all.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  return all;
}

TEST(Faults, EpochsWithoutValidationSayNothingOfIt) {
  Config config = small_config();
  config.validate.every_steps = 15;  // the run has 33 steps
  const DataSplit data = load(config.data.source, 103, 1);
  for (const int ranks : {1, 2}) {
    const TrainResult result = train_with(ranks, config, data)[0];
    ASSERT_EQ(result.epochs.size(), 3U);
    EXPECT_THAT((std::vector{result.epochs[0].validated, result.epochs[1].validated, result.epochs[2].validated}),
                ElementsAre(false, true, true));
    EXPECT_TRUE(std::isnan(result.epochs[0].test_loss));
    EXPECT_TRUE(std::isnan(result.epochs[0].metric("accuracy")));
    EXPECT_EQ(result.epochs[1].test_loss, result.validations[0].loss);
  }
  config.validate.every_steps = 1000;
  const TrainResult result = train_with(1, config, data)[0];
  EXPECT_FALSE(result.epochs[1].validated);
  EXPECT_TRUE(result.epochs[2].validated);  // training ends with a validation
}

// A step with a NaN among its samples changes nothing, like a step with rate 0.
TEST(Faults, AStepThatIsSkippedIsAsOneWithRateZero) {
  Config config = plain_config();
  config.on_nan = "skip";
  const DataSplit spoilt = with_nan({7}), sound = with_nan({});
  std::vector<double> first;
  for (const int ranks : {1, 3}) {
    const TrainResult skipped = train_with(ranks, config, spoilt)[0];
    const std::vector<std::size_t> steps = steps_without_number(skipped.losses);
    ASSERT_EQ(steps.size(), 3U);  // once in each epoch
    const std::set<std::size_t> still(steps.begin(), steps.end());
    const TrainResult wanted = train_with(ranks, config, sound, [&](int) {
      return Hooks{.on_backward = [&](const Moment& now) {
        if (still.contains(now.step)) now.trainer.optimizer().set_learning_rate(0);
      }};
    })[0];
    for (std::size_t i = 0; i < wanted.losses.size(); ++i)
      if (!still.contains(i)) {
        EXPECT_EQ(skipped.losses[i], wanted.losses[i]) << i;
      }
    EXPECT_EQ(skipped.validations.back().loss, wanted.validations.back().loss);
    EXPECT_TRUE(std::isfinite(skipped.epochs[0].train_loss));
  }
}

TEST(Faults, AStepThatIsNoNumberEndsTheRunBeforeItsUpdate) {
  const Config config = plain_config();
  const DataSplit data = with_nan({7});
  for (const int ranks : {1, 3}) {
    const std::vector<Network> networks = networks_for(ranks, config, data);
    const auto [result, failure] = outcome_of(networks, config, data);
    const std::vector<std::size_t> steps = steps_without_number(result.losses);
    ASSERT_THAT(steps, ElementsAre(result.losses.size() - 1));
    EXPECT_THAT(failure, AllOf(HasSubstr("of step " + std::to_string(steps[0])), HasSubstr("optimizer.lr")));
    ASSERT_EQ(result.epochs.size(), 1U);
    EXPECT_TRUE(std::isfinite(result.epochs[0].train_loss));
    for (const Network& network : networks) {
      EXPECT_TRUE(all_finite(parameters_of(network)));
      EXPECT_EQ(parameters_of(network), parameters_of(networks[0]));
    }
  }
}

TEST(Faults, HeldOutSamplesThatGiveNoNumberEndTheRunOrAreNeverTheBest) {
  Config config = plain_config();
  const DataSplit data = with_nan({}, {3});
  EXPECT_THAT(outcome_of(networks_for(2, config, data), config, data).failure,
              HasSubstr("the held-out loss after step 11"));
  config.on_nan = "skip";
  config.set("monitor=loss");
  const TrainResult result = train_with(2, config, data)[0];
  EXPECT_EQ(result.best_validation, 0U);
  EXPECT_EQ(result.epochs.size(), 3U);
}

/// A network that cannot learn from one sample, because a variance needs two.
Network normalised(const DataSplit& data) {
  struct Net : torch::nn::Module {
    torch::nn::Linear fc{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
    Net() {
      fc = register_module("fc", torch::nn::Linear(36, 10));
      norm = register_module("norm", torch::nn::BatchNorm1d(10));
      to(at::kDouble);
    }
  };
  EXPECT_EQ(data.image().pixels(), 36U);
  const auto net = std::make_shared<Net>();
  return {.module = net,
          .forward = [raw = net.get()](const at::Tensor& x) { return raw->norm(raw->fc(x.flatten(1))); }};
}

TEST(Faults, AStepOfOneSampleIsRefusedWhereANormalisationNeedsTwo) {
  Config config = small_config();
  config.batch.global = 17;  // 6 * 17 = 102
  const DataSplit data = load(config.data.source, 103, 1);
  const auto result = [&] { return train_these({normalised(data)}, config, data)[0]; };
  EXPECT_THAT(outcome_of({normalised(data)}, config, data).failure,
              AllOf(HasSubstr("one sample"), HasSubstr("say data.last=drop")));
  config.set("drop_last=true");
  EXPECT_EQ(result().losses.size(), 18U);
  config.data.last = "auto";
  config.data.remainder = "drop";  // also on one rank
  EXPECT_EQ(result().losses.size(), 18U);
  config.data.last = "pad";
  config.data.remainder = "uneven";
  EXPECT_EQ(result().losses.size(), 21U);
}

TEST(Finite, FindsWhatIsNoNumberAnywhere) {
  for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 2048U, 5000U}) {
    std::vector<float> numbers(count, -1.5F);
    EXPECT_TRUE(all_finite(numbers));
    for (const float wrong : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()})
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        if (at >= count) continue;
        std::vector<float> spoilt = numbers;
        spoilt[at] = wrong;
        EXPECT_FALSE(all_finite(spoilt)) << at << " of " << count;
      }
  }
  EXPECT_TRUE(all_finite(std::vector<double>{1e308, -1e308, 0}));
  EXPECT_FALSE(all_finite(std::vector<double>{1e308, not_a_number}));
}

}  // namespace
}  // namespace tutti::engine
