// Whole runs with masters and workers. Ranks are threads; the first ones are masters.
#include "engine/server/masters.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/engine/toy_masters.hpp"

namespace tutti::engine {
namespace {

using tutti::testing::run_ranks;
using tutti::testing::test_settings;

TEST(Downpour, OfOneWorkerIsSequentialBitForBit) {
  for (const char* optimizer : {"sgd", "momentum", "nesterov", "adam", "lars"}) {
    const std::string chosen = std::string("optimizer=") + optimizer;
    const Values alone = trained_alone(toy_config({chosen}));
    EXPECT_EQ(trained_by_masters(toy_config({chosen, "strategy=downpour", "masters=1"}), 2), alone) << optimizer;
    EXPECT_EQ(trained_by_masters(toy_config({chosen, "strategy=downpour"}), 1), alone) << optimizer;
  }
}

TEST(Downpour, OfOneWorkerEveryFiveStepsIsSequentialForSgd) {
  const Words common{"optimizer=sgd", "dtype=float64", "schedule=constant", "steps=10"};
  Words worker = common;
  for (const char* word : {"strategy=downpour", "strategy.every=5", "masters=1"}) worker.emplace_back(word);
  expect_near(trained_by_masters(toy_config(worker), 2), trained_alone(toy_config(common)));
}

TEST(Workers, OfTwoProcessesAverageWhatTheyComputeOfOtherSamples) {
  const Words common{"optimizer=sgd", "dtype=float64"};
  Words worker = common;
  for (const char* word : {"strategy=downpour", "processes=2", "masters=1"}) worker.emplace_back(word);
  expect_near(trained_by_masters(toy_config(worker), 3), trained_alone(toy_config(common)), 1e-10);
}

TEST(Workers, HaveAllSamplesAndNoneTwice) {
  const Config config = toy_config({"strategy=asgd", "masters=1", "epochs=1", "batch=12"});
  const std::vector<Network> networks = networks_for(4, config, toy());
  std::vector<TrainResult> results(4);
  run_ranks(4, test_settings("shm"), [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const MastersResult result = train_by_masters(config, world, networks[rank], toy());
    results[rank] = result.training;
    if (rank == 0) {
      ASSERT_EQ(result.lines.size(), 3U);
      for (const std::string& line : result.lines) EXPECT_NE(line.find("exchanges"), std::string::npos) << line;
    }
  });
  for (std::size_t rank = 1; rank < 4; ++rank)
    EXPECT_EQ(results[rank].losses.size(), ((toy().train->size() + 3 - rank) / 3 + 3) / 4) << rank;
}

// When the first worker ends early, the other workers end too, and all ranks of a worker stop after the same step.
TEST(Workers, AllStopWithTheFirst) {
  for (const std::size_t processes : {1, 2, 3}) {
    const Config config = toy_config(
        {"strategy=downpour", "masters=1", "processes=" + std::to_string(processes), "epochs=200", "batch=8"});
    const std::size_t ranks = 1 + 2 * processes;
    const std::vector<Network> networks = networks_for(static_cast<int>(ranks), config, toy());
    std::vector<TrainResult> results(ranks);
    const Hooks hooks{.on_update = [](const Moment& now) {
      if (now.step == 3) now.trainer.stop("enough");
    }};
    run_ranks(static_cast<int>(ranks), test_settings("shm"), [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      results[rank] = train_by_masters(config, world, networks[rank], toy(), hooks).training;
    });
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const bool is_first = rank <= processes;
      EXPECT_EQ(results[rank].stopped, is_first ? "enough" : "the first worker did: enough") << rank << " of " << ranks;
      EXPECT_EQ(results[rank].losses.size(), results[is_first ? 1 : processes + 1].losses.size()) << rank;
      EXPECT_TRUE(is_first || results[rank].losses.size() % 8 == 0) << "it looks every eighth step";
    }
  }
}

/// A folder for the files of one run, removed afterwards.
struct RunFolder {
  std::string path = ::testing::TempDir() + "tutti-masters-" + std::to_string(::getpid());
  RunFolder() { std::filesystem::remove_all(path); }
  ~RunFolder() { std::filesystem::remove_all(path); }
};

TEST(Checkpoints, GoOnBitForBitWithOneWorker) {
  const std::vector<Words> cases{
      {"strategy=downpour", "optimizer=adam", "strategy.every=4"},
      {"strategy=downpour", "optimizer=momentum", "strategy.every=4", "strategy.prefetch=3"},
      {"strategy=asgd", "strategy.every=4", "strategy.outer=nesterov", "strategy.outer_momentum=0.9",
       "optimizer=momentum"},
      {"strategy=asgd", "strategy.every=5", "strategy.outer=adam", "strategy.outer_lr=0.01"},
      {"strategy=easgd", "strategy.every=4", "optimizer=momentum"},
      {"strategy=gem", "strategy.every=4"},
      {"strategy=decoupled-diloco", "strategy.every=4", "strategy.delay=0", "strategy.apply=blocking"}};
  for (Words words : cases)
    for (const char* const masters : {"masters=0", "masters=2"}) {
      if (words[0] == "strategy=decoupled-diloco" && std::string(masters) == "masters=2") continue;  // needs one master
      words.insert(words.end(), {masters, "schedule=constant"});
      const int ranks = std::string(masters) == "masters=2" ? 3 : 1;
      const auto trained = [&](const Words& more) {
        Words all = words;
        all.insert(all.end(), more.begin(), more.end());
        return trained_by_masters(toy_config(all), ranks);
      };
      const RunFolder folder;
      const Values whole = trained({"epochs=4"});
      const std::string run = "run=" + folder.path;
      (void)trained({"epochs=1", run, "checkpoint.every_epochs=1"});
      EXPECT_EQ(trained({"epochs=4", run, "checkpoint.every_epochs=1", "resume=true"}), whole)
          << words[0] << " " << masters;
      words.resize(words.size() - 2);
    }
}

// A resumed run with three workers does all steps that the masters did not have at the checkpoint, and no others.
TEST(Checkpoints, GoOnWithAllSamplesOfSeveralWorkers) {
  for (const std::string strategy : {"asgd", "easgd"}) {
    const RunFolder folder;
    std::vector<std::size_t> steps(4);
    const auto train_until = [&](const Words& more) {
      Words words{"strategy=" + strategy,      "strategy.every=1",  "masters=1", "batch=12",
                  "checkpoint.every_epochs=1", "run=" + folder.path};
      words.insert(words.end(), more.begin(), more.end());
      const Config config = toy_config(words);
      const std::vector<Network> networks = networks_for(4, config, toy());
      run_ranks(4, test_settings("shm"), [&](Communicator& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        steps[rank] = train_by_masters(config, world, networks[rank], toy()).training.losses.size();
      });
    };
    train_until({"epochs=2"});
    EXPECT_EQ(steps, (std::vector<std::size_t>{0, 16, 16, 16}));
    train_until({"epochs=4", "resume=true"});
    EXPECT_EQ(steps[1], 32U) << "the first worker has the losses of before";
    for (const std::size_t rank : {2, 3}) {  // their progress at the checkpoint is not determined
      EXPECT_GE(steps[rank], 16U);
      EXPECT_LE(steps[rank], 32U);
    }
  }
}

// Workers have unequal shares, and one that finishes first does not delay the rounds of the others.
TEST(Rounds, OfAllEndWithTheLast) {
  for (const std::string strategy : {"downpour", "asgd", "easgd", "decoupled-diloco"}) {
    const Config config = toy_config({"strategy=" + strategy, "masters=1", "strategy.every=1", "strategy.members=all",
                                      "strategy.delay=0", "strategy.apply=blocking", "batch=5"});
    EXPECT_FALSE(trained_by_masters(config, 6).empty()) << strategy;
  }
}

TEST(Presets, AllTrainWithMastersAndWithout) {
  for (const std::string preset : {"downpour", "asgd", "easgd", "dp-easgd", "gem", "decoupled-diloco"})
    for (const int masters : {0, 1}) {
      const Config config =
          toy_config({"strategy=" + preset, "strategy.every=3", "masters=" + std::to_string(masters)});
      const Values found = trained_by_masters(config, masters + 4);
      ASSERT_FALSE(found.empty());
      EXPECT_TRUE(std::ranges::all_of(found, [](double each) { return std::isfinite(each); })) << preset;
      EXPECT_NE(found, values_of(tensors_of(make_network(config, toy())).parameters)) << preset << ": nothing moved";
    }
}

}  // namespace
}  // namespace tutti::engine
