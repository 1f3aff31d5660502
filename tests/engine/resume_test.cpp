// The folder of a run: what a run writes, and that a resumed run gives the results of an uninterrupted run.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "engine/checkpoint/saver.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/weights.hpp"
#include "engine/models/model.hpp"
#include "engine/trainer.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t samples = 103;  // ten batches of 10 and one of 3

/// Returns the error of the first rank that failed.
template <class Call>
std::string failure(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class RunTest : public ::testing::Test {
 protected:
  Config config() const {
    Config config;
    for (const char* word :
         {"model=mlp", "hidden=12", "data=random:1x6x6", "dtype=float64", "progress=off", "epochs=3", "batch=10",
          "shift=1", "optimizer=adam", "lr=0.01", "checkpoint.every_steps=4", "checkpoint.keep=0"})
      config.set(word);
    config.run = (folder_ / "run").string();
    return config;
  }

  using HooksOf = std::function<Hooks(int rank)>;

  static TrainResult train_on(
      int ranks, const Config& config, const HooksOf& hooks = [](int) { return Hooks(); }) {
    const DataSplit data = load(config.data.source, samples, 1);
    std::vector<Network> networks;  // made one after the other, because they share LibTorch's random generator
    for (int r = 0; r < ranks; ++r) networks.push_back(make_network(config, data));
    TrainResult result;
    tutti::testing::run_ranks(ranks, tutti::testing::test_settings("shm"), [&](Communicator& world) {
      TrainResult mine =
          train(config, world, networks[static_cast<std::size_t>(world.rank())], data, hooks(world.rank()));
      if (world.rank() == 0) result = std::move(mine);
    });
    return result;
  }

  /// Ends a run by an exception after `steps` steps, like a kill right after a checkpoint.
  static HooksOf interrupt_after(std::size_t steps) {
    return [steps](int) {
      return Hooks{.on_sample = [steps](const Moment& now) {
        if (now.step == steps) throw std::runtime_error("interrupted");
      }};
    };
  }

  static std::string text(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(RunTest, ResumesWithTheSameBits) {
  Config whole = config();
  whole.run = (folder_ / "whole").string();
  const TrainResult expected = train_on(2, whole);
  const std::string weights = text(folder_ / "whole/checkpoints/last/model.safetensors");
  for (const std::size_t stop : {5, 11, 17, 26}) {  // in epochs 1, 2 and 3; 11 ends the first
    Config parted = config();
    fs::remove_all(parted.run);
    EXPECT_THROW(train_on(2, parted, interrupt_after(stop)), std::runtime_error);
    parted.checkpoint.resume = "true";
    const TrainResult found = train_on(2, parted);
    EXPECT_EQ(found.losses, expected.losses) << stop;
    ASSERT_EQ(found.epochs.size(), expected.epochs.size()) << stop;
    for (std::size_t e = 0; e < found.epochs.size(); ++e) {
      EXPECT_EQ(found.epochs[e].train_loss, expected.epochs[e].train_loss) << stop;
      EXPECT_EQ(found.epochs[e].metrics, expected.epochs[e].metrics) << stop;
    }
    EXPECT_EQ(text(fs::path(parted.run) / "checkpoints/last/model.safetensors"), weights) << stop;
  }
}

TEST_F(RunTest, ResumedOnOtherRanksEverySampleIsSeenOnce) {
  for (const auto& [before, after] : {std::pair{2, 3}, {4, 1}, {1, 4}}) {
    Config run = config();
    fs::remove_all(run.run);
    std::mutex mutex;
    std::map<std::size_t, std::multiset<SampleId>> seen;  // by epoch: samples of steps that a checkpoint includes
    const auto ledger = [&](std::size_t end) {
      return [&, end](int) {
        return Hooks{.on_sample = [&, end](const Moment& now) {
          if (now.step == end + 1) throw std::runtime_error("interrupted");
          if (now.step >= end) return;
          const std::scoped_lock lock(mutex);
          seen[now.epoch].insert(now.batch->ids.begin(), now.batch->ids.end());
        }};
      };
    };
    EXPECT_THROW(train_on(before, run, ledger(16)), std::runtime_error);
    run.checkpoint.resume = "true";
    const TrainResult result = train_on(after, run, ledger(1000));
    EXPECT_EQ(result.epochs.size(), 3U);
    ASSERT_EQ(seen.size(), 3U);
    for (const auto& [epoch, ids] : seen) {
      EXPECT_EQ(ids.size(), 103U) << epoch;
      EXPECT_EQ(std::set<SampleId>(ids.begin(), ids.end()).size(), 103U) << before << " then " << after;
    }
  }
}

TEST_F(RunTest, ACheckpointThatIsDueWithTheEpochsLastStepIsWritten) {
  Config run = config();
  run.checkpoint.every_steps = 11;  // an epoch has 11 steps
  EXPECT_THROW(train_on(2, run, interrupt_after(15)), std::runtime_error);
  EXPECT_EQ(fs::read_symlink(folder_ / "run/checkpoints/last"), "step-11");
}

// If training ends within an epoch, by a limit or a hook, a resumed run trains the rest of the epoch.
TEST_F(RunTest, AnEpochThatWasCutShortIsGoneOnWith) {
  Config whole = config();
  whole.run = (folder_ / "whole").string();
  const TrainResult expected = train_on(2, whole);
  Config run = config();
  run.steps = 15;  // other schedules depend on the last step, so this test uses a constant one
  whole.set("schedule=constant");
  run.set("schedule=constant");
  fs::remove_all(whole.run);
  const TrainResult steady = train_on(2, whole);
  EXPECT_EQ(train_on(2, run).losses.size(), 15U);
  run.steps = 0;
  run.checkpoint.resume = "true";
  const TrainResult resumed = train_on(2, run);
  EXPECT_EQ(resumed.losses, steady.losses);
  EXPECT_EQ(resumed.epochs.size(), 3U);
  EXPECT_NE(steady.losses, expected.losses);
}

TEST_F(RunTest, TheBestCheckpointFollowsValidations) {
  Config run = config();
  run.checkpoint = {.every_epochs = 1, .every_steps = 0, .keep = 1};
  run.validate.every_steps = 3;
  const TrainResult result = train_on(2, run);
  const std::size_t step = result.validations[result.best_validation - 1].step;
  EXPECT_EQ(fs::read_symlink(folder_ / "run/checkpoints/best"), "step-" + std::to_string(step));
  const std::string lines = text(folder_ / "run/validations.csv");
  EXPECT_THAT(lines, HasSubstr("step,epoch,held_out_loss,accuracy"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1 + 11);
  EXPECT_THAT(lines, HasSubstr("\n33,3,"));
}

// A run that has reached its target ends. It resumes if it gets another target.
TEST_F(RunTest, ARunThatReachedItsTargetHasItAgain) {
  Config run = config();
  run.stop.target = 0.001;
  EXPECT_EQ(train_on(2, run).losses.size(), 11U);
  run.checkpoint.resume = "true";
  EXPECT_EQ(train_on(2, run).losses.size(), 11U);
  run.stop.target = 0;
  const TrainResult on = train_on(2, run);
  EXPECT_EQ(on.losses.size(), 33U);
  EXPECT_EQ(on.epochs.size(), 3U);
}

TEST_F(RunTest, ARunThatPatienceEndedGoesOnAndIsPatientAnew) {
  Config run = config();
  run.set("lr=0");
  run.epochs = 20;
  run.stop.patience = 2;
  run.checkpoint.every_epochs = 1;
  const TrainResult first = train_on(2, run);
  EXPECT_EQ(first.epochs.size(), 3U);
  EXPECT_THAT(first.stopped, HasSubstr("for 2 epochs"));
  run.checkpoint.resume = "true";
  const TrainResult again = train_on(2, run);
  EXPECT_EQ(again.epochs.size(), 5U);
  EXPECT_THAT(again.stopped, HasSubstr("no epoch was better than epoch 1 for 2 epochs"));
}

TEST_F(RunTest, IsResumedWithTheSameBatchSeedAndData) {
  Config run = config();
  run.epochs = 1;
  train_on(2, run);
  run.checkpoint.resume = "true";
  run.epochs = 2;
  Config other = run;
  other.batch.global = 20;
  EXPECT_THAT(failure([&] { train_on(2, other); }), HasSubstr("another batch.global (10)"));
  other = run;
  other.seed = 2;
  EXPECT_THAT(failure([&] { train_on(2, other); }), HasSubstr("another seed"));
}

TEST_F(RunTest, TheLossHasToSuitTheData) {
  Config run = config();
  run.run.clear();
  run.checkpoint = {};
  run.loss = "mse";
  EXPECT_THAT(failure([&] { train_on(1, run); }), HasSubstr("say loss=cross_entropy"));
}

TEST_F(RunTest, AFolderHasOneRun) {
  Config run = config();
  run.epochs = 1;
  train_on(1, run);
  EXPECT_THAT(text(folder_ / "run/config.yaml"), HasSubstr("every_steps: 4"));
  EXPECT_THAT(text(folder_ / "run/metrics.csv"), HasSubstr("epoch,learning_rate,train_loss,held_out_loss,accuracy"));
  EXPECT_THAT(failure([&] { train_on(3, run); }), HasSubstr("--resume"));  // rank 0 detects this, and all ranks fail
}

TEST_F(RunTest, CheckpointsAreReadBackByName) {
  Config run = config();
  run.epochs = 1;
  train_on(1, run);
  const Fields model = read_arrays(folder_ / "run/checkpoints/last/model.safetensors");
  EXPECT_EQ(model["fc1.weight"].describe(), "f64 of 12x36");
  const Fields optimizer = read_arrays(folder_ / "run/checkpoints/last/optimizer.safetensors");
  EXPECT_GE(optimizer.size(), 8U);
  Config other = run;
  other.set("hidden=13");
  other.checkpoint.resume = "true";
  other.epochs = 2;
  EXPECT_THAT(failure([&] { train_on(1, other); }), HasSubstr("another model"));
}

// A step is divided into pieces of at most `micro` samples per rank: the gradients are the same, except for rounding.
TEST_F(RunTest, MicroBatchesAddUp) {
  Config run = config();
  run.run.clear();
  run.checkpoint = {};
  const TrainResult whole = train_on(2, run);
  for (const auto& [ranks, micro] : {std::pair{1, 3}, {2, 3}, {3, 3}, {3, 1}}) {
    run.batch.micro = micro;
    const TrainResult pieces = train_on(ranks, run);
    ASSERT_EQ(pieces.losses.size(), whole.losses.size());
    for (std::size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(pieces.losses[i], whole.losses[i], 1e-10) << i;
  }
}

TEST_F(RunTest, EndsWhereAHookSaysSoAndWherePatienceEnds) {
  Config run = config();
  run.run.clear();
  run.checkpoint = {};
  const TrainResult stopped = train_on(2, run, [](int) {
    return Hooks{.on_update = [](const Moment& now) {
      if (now.step == 12) now.trainer.stop("enough");
    }};
  });
  EXPECT_EQ(stopped.stopped, "enough");
  EXPECT_EQ(stopped.losses.size(), 13U);
  run.set("lr=0");  // nothing ever improves on the first epoch
  run.epochs = 20;
  run.stop.patience = 2;
  const TrainResult patient = train_on(2, run);
  EXPECT_EQ(patient.epochs.size(), 3U);
  EXPECT_THAT(patient.stopped, HasSubstr("epoch 1 for 2 epochs"));
}

TEST_F(RunTest, ALossThatIsNoNumberEndsTheRun) {
  Config run = config();
  run.set("optimizer=sgd");
  run.optimizer.options = {{"lr", "1e300"}};
  EXPECT_THAT(failure([&] { train_on(1, run); }), HasSubstr("are not finite numbers"));
}

TEST_F(RunTest, AnAverageOfTheParametersIsJudgedKeptAndResumed) {
  Config config = this->config();
  config.set("optimizer.ema=0.9");
  config.set("epochs=2");
  std::vector<at::Tensor> average;
  const TrainResult whole = train_on(2, config, [&](int rank) {
    return Hooks{.on_update = [&average, rank](const Moment& now) {
      if (rank != 0) return;
      const std::vector<nn::NamedTensor> parameters = tensors_of(now.trainer.network()).parameters;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const at::Tensor value = parameters[i].second.detach().clone();
        if (average.size() == i)
          average.push_back(value);
        else
          average[i] = 0.9 * average[i] + 0.1 * value;
      }
    }};
  });
  const fs::path last = folder_ / "run/checkpoints/last";
  const Fields kept = read_arrays(last / "ema.safetensors"), raw = read_arrays(last / "model.safetensors");
  const DataSplit data = load(config.data.source, samples, 1);
  const Network network = make_network(config, data);
  const std::vector<nn::NamedTensor> parameters = tensors_of(network).parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].first;
    EXPECT_LT((to_tensor(kept[name]) - average[i]).abs().max().item<double>(), 1e-12) << name;
    EXPECT_FALSE(to_tensor(raw[name]).equal(to_tensor(kept[name]))) << name;
  }
  EXPECT_EQ(load_weights(network, folder_ / "run").file.filename(), "ema.safetensors");
  Config judging = config;
  judging.run.clear();
  judging.checkpoint = {};
  judging.optimizer.ema = 0;
  tutti::testing::run_ranks(1, tutti::testing::test_settings("inproc"), [&](Communicator& world) {
    Trainer trainer(judging, world, {.network = network, .data = data});
    EXPECT_NEAR(trainer.validate().loss, whole.validations[whole.best_validation - 1].loss, 1e-12);
  });

  const std::string average_file = text(last / "ema.safetensors");
  fs::remove_all(folder_ / "run");
  EXPECT_THAT(failure([&] { train_on(2, config, interrupt_after(8)); }), HasSubstr("interrupted"));
  config.checkpoint.resume = "true";
  EXPECT_EQ(train_on(2, config).losses, whole.losses);
  EXPECT_EQ(text(last / "ema.safetensors"), average_file);
}

TEST_F(RunTest, OutputsOfHeldOutSamplesAreInOrderOnAnyNumberOfRanks) {
  Config config = this->config();
  config.run.clear();
  config.checkpoint = {};
  const DataSplit data = load(config.data.source, samples, 1);
  at::Tensor alone;
  for (const int ranks : {1, 2, 3}) {
    std::vector<Network> networks;
    for (int r = 0; r < ranks; ++r) networks.push_back(make_network(config, data));
    tutti::testing::run_ranks(ranks, tutti::testing::test_settings("shm"), [&](Communicator& world) {
      Trainer trainer(config, world, {.network = networks[static_cast<std::size_t>(world.rank())], .data = data});
      const at::Tensor outputs = trainer.predict();
      EXPECT_EQ(outputs.defined(), world.rank() == 0);
      if (world.rank() != 0) return;
      if (ranks == 1) alone = outputs;
      EXPECT_EQ(outputs.sizes(), (at::IntArrayRef{static_cast<std::int64_t>(data.test->size()), 10}));
      EXPECT_TRUE(at::allclose(outputs, alone, 0, 1e-12)) << ranks;
    });
  }
}

TEST_F(RunTest, AWishEndsARunWithinAFewStepsAndTheResumedRunHasTheSameBits) {
  Config config = this->config();
  config.checkpoint.every_steps = 0;
  config.validate.every_steps = 3;
  config.run = (folder_ / "whole").string();
  const TrainResult whole = train_on(2, config);
  for (const std::size_t step : {0U, 2U, 4U, 9U, 10U, 21U, 32U}) {
    config.run = (folder_ / ("ended-" + std::to_string(step))).string();
    config.checkpoint.resume = "false";
    std::size_t calls = 0;
    const TrainResult ended = train_on(2, config, [&](int rank) {
      if (rank == 0) return Hooks();
      return Hooks{.wish = [&calls, step] { return calls++ == step ? Wish::end : Wish::nothing; }};
    });
    const bool complete = ended.losses.size() == whole.losses.size() && !ended.interrupted;
    EXPECT_TRUE(complete || ended.interrupted) << step;
    EXPECT_GT(ended.losses.size(), step) << step;
    if (ended.interrupted) {
      EXPECT_EQ(ended.stopped, "it was asked to end");
    }
    config.checkpoint.resume = "true";
    const TrainResult resumed = train_on(2, config);
    EXPECT_EQ(resumed.losses, whole.losses) << step;
    ASSERT_EQ(resumed.validations.size(), whole.validations.size()) << step;
    for (std::size_t i = 0; i < whole.validations.size(); ++i) {
      EXPECT_EQ(resumed.validations[i].step, whole.validations[i].step) << step;
      EXPECT_EQ(resumed.validations[i].loss, whole.validations[i].loss) << step;
    }
    EXPECT_EQ(resumed.epochs.size(), whole.epochs.size()) << step;
  }
}

}  // namespace
}  // namespace tutti::engine
