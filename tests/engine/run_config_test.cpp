// The configuration that a run's folder provides for resuming it.
#include "engine/loop/run_config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

class Resumed : public ::testing::Test {
 protected:
  /// Writes config.yaml as the run of `config` does.
  void keep(const Config& config) const { std::ofstream(folder_ / "config.yaml") << config.resolved(); }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Resumed, ValuesAndTheirSourcesAreThoseOfTheRun) {
  Config before;
  before.set("optimizer=adam");
  before.set("lr", "0.02", "digits.yaml:7");
  before.set("data", "folder # 1 with \"quotes\" \\ and: a\nnew line", "--data");
  before.set("epochs=7");
  keep(before);
  Config after;
  read_run(after, folder_);
  EXPECT_EQ(after.data.source, before.data.source);
  EXPECT_EQ(after.epochs, 7);
  EXPECT_EQ(after.optimizer.options, before.optimizer.options);  // only the options that were given
  EXPECT_EQ(after.sources, before.sources);
  EXPECT_EQ(after.resolved(), before.resolved());
}

TEST_F(Resumed, WhatSomebodyHasWrittenThereHasItsLineAsSource) {
  std::ofstream(folder_ / "config.yaml") << "epochs: 3\noptimizer: {name: adam, lr: 0.5}\n";
  Config config;
  read_run(config, folder_);
  EXPECT_EQ(config.epochs, 3);
  EXPECT_EQ(config.sources.at("epochs"), (folder_ / "config.yaml:1").string());
  EXPECT_EQ(config.optimizer.options.at("lr"), "0.5");
}

TEST_F(Resumed, AnotherChoiceDoesNotInheritOptionsThatItDoesNotHave) {
  Config before;
  before.set("optimizer=adam");
  before.set("optimizer.beta1=0.8");
  before.set("lr=0.02");
  Config after = before;
  after.set("optimizer=momentum");
  EXPECT_ANY_THROW(Config(after).check());
  forget_options_of_others(after, before);
  EXPECT_EQ(after.optimizer.options, (Options::Given{{"lr", "0.02"}}));
  EXPECT_FALSE(after.sources.contains("optimizer.beta1"));
  Config given = before;
  given.set("optimizer=momentum");
  given.set("optimizer.beta1=0.7");  // a wrong key on the command line is kept, to be refused
  forget_options_of_others(given, before);
  EXPECT_TRUE(given.optimizer.options.contains("beta1"));
}

TEST_F(Resumed, RanksAndCheckpoints) {
  EXPECT_EQ(ranks_of_run(folder_), 0);
  EXPECT_FALSE(has_checkpoint(folder_));
  std::ofstream(folder_ / "environment.txt") << "tutti: 1\nranks: 12\ncores: 3\n";
  EXPECT_EQ(ranks_of_run(folder_), 12);
  fs::create_directories(folder_ / "checkpoints" / "step-3");
  EXPECT_TRUE(has_checkpoint(folder_));
  EXPECT_FALSE(has_checkpoint(folder_ / "elsewhere"));
}

}  // namespace
}  // namespace tutti::engine
