// Reports of a training run: how its time was spent, results of validations, and when these end the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <mutex>
#include <thread>

#include "engine/data/formats/source.hpp"
#include "engine/loop/autocast.hpp"
#include "engine/models/model.hpp"
#include "tests/engine/trainings.hpp"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Throws;

// Rank 1 sleeps in a hook. This counts as its phase `other`, and as time that the other ranks wait for it.
TEST(Trainer, WaitsForARankAreBookedToIt) {
  Config config = small_config();
  config.epochs = 2;
  const DataSplit data = load(config.data.source, 100, 1);
  const auto seconds = [](Nanoseconds from, Nanoseconds to) { return 1e-9 * static_cast<double>(to - from); };
  std::vector<double> least(2), most(2);  // bounds of an epoch's time, by the test's own clocks
  std::mutex mutex;
  const auto results = train_with(3, config, data, [&](int rank) {
    const auto times = std::make_shared<std::array<Nanoseconds, 3>>();
    return Hooks{.on_start_epoch = [=](const Moment&) { (*times)[0] = steady_now(); },
                 .on_sample =
                     [=](const Moment& now) {
                       if (now.step % 10 == 0) (*times)[1] = steady_now();
                     },
                 .on_forward =
                     [=](const Moment&) {
                       if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
                     },
                 .on_update = [=](const Moment&) { (*times)[2] = steady_now(); },
                 .on_end_epoch =
                     [=, &least, &most, &mutex](const Moment& now) {
                       const std::scoped_lock lock(mutex);
                       least[now.epoch] += seconds((*times)[1], (*times)[2]) / 3;
                       most[now.epoch] += seconds((*times)[0], steady_now()) / 3;
                     }};
  });
  for (std::size_t e = 0; e < 2; ++e) {
    const EpochResult& epoch = results[0].epochs[e];
    EXPECT_GE(epoch.phases.wall(), least[e]);
    EXPECT_LE(epoch.phases.wall(), most[e]);
    EXPECT_GE(epoch.phases.other, 0.1);  // rank 1 sleeps 0.3 s
    EXPECT_EQ(epoch.latest().rank, 1);
    ASSERT_EQ(epoch.waited_for.size(), 3U);
    const auto waited_for = [&](std::size_t rank) { return epoch.waited_for[rank].seconds; };
    EXPECT_GT(waited_for(1), 2 * (waited_for(0) + waited_for(2)));
    EXPECT_NEAR(waited_for(0) + waited_for(1) + waited_for(2), epoch.phases.waiting, 1e-9);
    EXPECT_NEAR(epoch.samples_per_second * epoch.phases.wall(), 100, 1e-6);
  }
}

std::vector<std::size_t> steps_of(const TrainResult& result) {
  std::vector<std::size_t> steps;
  for (const Validation& each : result.validations) steps.push_back(each.step);
  return steps;
}

// 103 samples in batches of 10 are 11 steps. With every_samples, validations do not depend on batch size and ranks.
TEST(Trainer, ValidatesWhenItIsTold) {
  Config config = small_config();
  const DataSplit data = load(config.data.source, 103, 1);
  const TrainResult plain = train_with(2, config, data)[0];
  EXPECT_THAT(steps_of(plain), ElementsAre(11, 22, 33));
  config.validate.every_steps = 9;
  const TrainResult often = train_with(2, config, data)[0];
  EXPECT_THAT(steps_of(often), ElementsAre(9, 18, 27, 33));  // and at the end of the run
  EXPECT_EQ(often.losses, plain.losses);                     // validating does not change the training
  EXPECT_EQ(often.validations.back().loss, plain.validations.back().loss);
  EXPECT_NEAR(often.validations[1].epoch, 1 + 7.0 / 11, 1e-12);
  EXPECT_EQ(often.epochs[1].test_loss, often.validations[1].loss);
  config.validate = {.every_steps = 0, .every_samples = 103};
  for (const char* remainder : {"uneven", "pad"}) {
    config.data.remainder = remainder;
    for (const auto& [ranks, batch] : {std::pair{1, 10}, {3, 9}, {2, 8}, {3, 63}}) {
      config.batch.global = batch;
      const TrainResult counted = train_with(ranks, config, data)[0];
      ASSERT_EQ(counted.validations.size(), 3U) << ranks << " ranks, batches of " << batch;
      for (std::size_t e = 0; e < 3; ++e) EXPECT_EQ(counted.validations[e].epoch, static_cast<double>(e + 1));
    }
  }
}

/// Runs with a metric that has the values of `script`, one for each validation, after every second step.
TrainResult follow(const std::vector<double>& script, Config config, int ranks, bool larger_is_better = true) {
  config.validate.every_steps = 2;
  const DataSplit data = load(config.data.source, 103, 1);
  std::vector<Network> networks;
  for (int r = 0; r < ranks; ++r) networks.push_back(make_network(config, data.image(), data.classes));
  TrainResult result;
  tutti::testing::run_ranks(ranks, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    std::size_t next = 0;
    Task task{.network = networks[static_cast<std::size_t>(world.rank())], .data = data};
    task.metrics = {{larger_is_better ? "accuracy" : "error",
                     [&](const at::Tensor&, const at::Tensor&) { return script.at(next); }, larger_is_better}};
    Trainer trainer(config, world, task, {.on_validation = [&](const Moment& now) {
                      EXPECT_EQ(now.validation->step, now.step);
                      ++next;
                    }});
    TrainResult mine = trainer.run();
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

TEST(Trainer, EndsAtTheFirstValidationThatReachesTheTarget) {
  Config config = small_config();
  config.stop.target = 60;
  const TrainResult reached = follow({0.1, 0.5, 0.4, 0.7, 0.9}, config, 3);
  EXPECT_THAT(steps_of(reached), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(reached.losses.size(), 8U);
  EXPECT_TRUE(reached.reached_target);
  EXPECT_EQ(reached.stopped, "accuracy reached stop.target after step 8");
  config.stop.target = 0.25;  // an error, which ought to fall
  const TrainResult fell = follow({1, 0.5, 0.25, 0.1}, config, 2, false);
  EXPECT_EQ(fell.losses.size(), 6U);
  config.stop.target = 99;
  const TrainResult missed = follow(std::vector<double>(17, 0.5), config, 2);
  EXPECT_EQ(missed.losses.size(), 33U);
  EXPECT_FALSE(missed.reached_target);
}

TEST(Trainer, PatienceCountsValidations) {
  Config config = small_config();
  config.stop.patience = 3;
  const TrainResult result = follow({0.1, 0.5, 0.4, 0.5, 0.3, 0.9}, config, 2);
  EXPECT_EQ(result.losses.size(), 10U);
  EXPECT_EQ(result.best_validation, 2U);
  EXPECT_EQ(result.stopped, "no validation was better than that after step 4 for 3 validations");
  // Means of two values are .1 .3 .45 .45 .4 .6: the third is best until the sixth, which comes within the patience.
  config.stop.smooth = 2;
  const TrainResult smooth = follow({0.1, 0.5, 0.4, 0.5, 0.3, 0.9, 0.2, 0.2, 0.2, 0.9}, config, 2);
  EXPECT_EQ(smooth.losses.size(), 18U);
  EXPECT_EQ(smooth.best_validation, 6U);
  EXPECT_EQ(smooth.stopped, "no validation was better than that after step 12 for 3 validations");
}

TEST(Trainer, PatienceWantsMoreThanTheLeastImprovement) {
  Config config = small_config();
  config.stop.patience = 3;
  config.stop.min_delta = 5;  // percent, since the metric is an accuracy
  const TrainResult result = follow({0.5, 0.53, 0.56, 0.58, 0.6, 0.61}, config, 2);
  EXPECT_EQ(result.losses.size(), 12U);  // 0.56 exceeds 0.5 by enough, but 0.58 and 0.6 do not exceed 0.56 by enough
  EXPECT_EQ(result.best_validation, 6U);
  config.stop.monitor = "loss";
  config.stop.min_delta = 1000;
  const TrainResult by_loss = follow(std::vector<double>(20, 0.5), config, 2);
  EXPECT_EQ(by_loss.losses.size(), 8U);
  config.stop.monitor = "auc";
  EXPECT_THAT([&] { follow({0.5}, config, 1); }, Throws<std::exception>());
}

TEST(Batch, OfEachRankIsTheGlobalOneDivided) {
  Config config = small_config();
  config.batch.global = 12;
  const DataSplit data = load(config.data.source, 103, 1);
  const TrainResult global = train_with(3, config, data)[0];
  config.batch = {.global = 64, .per_rank = 4};
  EXPECT_EQ(train_with(3, config, data)[0].losses, global.losses);
  config.set("batch.global=12");  // the last one given overrides the others
  EXPECT_EQ(train_with(2, config, data)[0].losses.size(), global.losses.size());
}

// Only matrix products use bfloat16. Weights are float32, and so are the output and the gradients outside the network.
TEST(Precision, ForwardIsInBfloat16AndWeightsStay) {
  Config config = small_config();
  config.dtype = "float32";
  const DataSplit data = load(config.data.source, 103, 1);
  const TrainResult full = train_with(2, config, data)[0];
  config.precision = "bf16";
  std::vector<Network> networks;
  std::vector<at::ScalarType> inside(2), output(2), gradient(2);
  for (std::size_t r = 0; r < 2; ++r) {
    networks.push_back(make_network(config, data.image(), data.classes));
    networks[r].forward = [&inside, r, plain = networks[r].forward](const at::Tensor& input) {
      const at::Tensor found = plain(input);
      inside[r] = found.scalar_type();
      return found;
    };
  }
  const auto results = train_these(networks, config, data, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return Hooks{.on_forward =
                     [&, r](const Moment& now) {
                       if (now.output) output[r] = now.output->scalar_type();
                     },
                 .on_update =
                     [&, r](const Moment& now) {
                       for (const auto& [name, tensor] : tensors_of(now.trainer.network()).parameters) {
                         EXPECT_EQ(tensor.scalar_type(), at::kFloat);
                         gradient[r] = tensor.grad().scalar_type();
                       }
                     }};
  });
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(inside[r], at::kBFloat16);
    EXPECT_EQ(output[r], at::kFloat);
    EXPECT_EQ(gradient[r], at::kFloat);
    EXPECT_EQ(results[r].losses, results[0].losses);
  }
  ASSERT_EQ(results[0].losses.size(), full.losses.size());
  EXPECT_NE(results[0].losses, full.losses);
  for (std::size_t i = 0; i < full.losses.size(); ++i) EXPECT_NEAR(results[0].losses[i], full.losses[i], 0.02) << i;
  config.dtype = "float64";
  EXPECT_THROW(train_with(1, config, data), std::runtime_error);
}

}  // namespace
}  // namespace tutti::engine
