// Groups of workers, sub-masters and a top master. Ranks are threads; rank 0 is the top master.
#include "engine/server/submasters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/checkpoint/saver.hpp"
#include "engine/server/make_server.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/explain.hpp"
#include "tests/engine/toy_masters.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

using tutti::testing::run_ranks;
using tutti::testing::test_settings;

Roles roles(const Words& words, int ranks) { return roles_of(play_config(words), ranks); }

TEST(SubMasters, HaveGroupsThatDifferByOneWorker) {
  const Roles found = roles({"strategy=easgd", "strategy.submasters=2"}, 8);
  EXPECT_EQ(found.masters, (std::vector{0}));
  EXPECT_EQ(found.submasters, (std::vector{1, 2}));
  EXPECT_EQ(found.workers, (std::vector<std::vector<int>>{{3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(found.groups, (std::vector<tutti::Range>{{0, 3}, {3, 2}}));
  EXPECT_EQ(roles({"strategy=easgd", "strategy.submasters=1"}, 3).groups, (std::vector<tutti::Range>{{0, 1}}));
  const Roles pairs = roles({"strategy=dp-easgd", "strategy.submasters=2", "masters=1"}, 9);
  EXPECT_EQ(pairs.workers, (std::vector<std::vector<int>>{{3, 4}, {5, 6}, {7, 8}}));
  EXPECT_EQ(pairs.groups, (std::vector<tutti::Range>{{0, 2}, {2, 1}}));
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(keeps_parameters(pairs, rank));
  EXPECT_FALSE(keeps_parameters(pairs, 3));
  EXPECT_EQ(tells_of_death(pairs, 0), 1);
  EXPECT_EQ(tells_of_death(pairs, 2), 0);
}

TEST(SubMasters, AreNoneUnlessAskedFor) {
  for (const Words& words : {Words{"strategy=easgd", "masters=2"}, Words{"strategy=downpour"}}) {
    const Roles found = roles(words, 4);
    EXPECT_TRUE(found.submasters.empty() && found.groups.empty());
    EXPECT_EQ(tells_of_death(found, 0), found.workers[0][0]);
  }
}

TEST(SubMasters, AreRefusedWhereTheyCannotBe) {
  const auto refused = [](Words words, int ranks, const char* said) {
    words.insert(words.begin(), "strategy=asgd");
    EXPECT_NE(failure([&] { (void)roles(words, ranks); }).find(said), std::string::npos)
        << failure([&] { (void)roles(words, ranks); });
  };
  refused({"strategy.submasters=2"}, 4, "not every group has a worker; start at least 5 ranks");
  refused({"strategy.submasters=2", "processes=2"}, 8, "do not make whole workers of strategy.processes=2; start 9");
  refused({"strategy.submasters=2", "masters=2"}, 9, "leave strategy.masters out");
  refused({"strategy.submaster_every=3"}, 9, "say strategy.submasters");
  for (const char* kept : {"checkpoint.every_epochs=1", "checkpoint.every_steps=5", "resume=true"})
    refused({"strategy.submasters=2", kept}, 9, "model.safetensors");
}

TEST(SubMasters, AddUpOrAverageAtTheTop) {
  const auto numbers = [](Words words) {
    words.push_back("strategy.submasters=3");
    return submaster_numbers(play_config(words), 3);
  };
  using Kind = SubmasterNumbers::Kind;
  for (const char* preset : {"downpour", "asgd", "gem"}) {
    const SubmasterNumbers found = numbers({std::string("strategy=") + preset, "strategy.submaster_every=4"});
    EXPECT_EQ(found.kind, Kind::deltas) << preset;
    EXPECT_EQ(found.rate, 1) << preset;
    EXPECT_EQ(found.every, 4U);
  }
  EXPECT_EQ(numbers({"strategy=downpour", "synchronous=true"}).rate, 1. / 3);
  EXPECT_EQ(numbers({"strategy=decoupled-diloco"}).rate, 1. / 3);
  EXPECT_EQ(numbers({"strategy=decoupled-diloco", "strategy.merge=sum"}).rate, 1);
  EXPECT_EQ(numbers({"strategy=easgd"}).kind, Kind::elastic);
  EXPECT_DOUBLE_EQ(numbers({"strategy=easgd"}).elastic, .3);
  EXPECT_DOUBLE_EQ(numbers({"strategy=easgd"}).elastic_here, .3);
  EXPECT_DOUBLE_EQ(numbers({"strategy=easgd", "strategy.elastic_here=0.1"}).elastic_here, .1);
}

// Equal to 1e-12 and not bitwise, because the top gets b - (b - c), which is c but for rounding.
TEST(SubMasters, OfOneGroupOfOneWorkerAreSequential) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    const Words common{std::string("optimizer=") + optimizer, "dtype=float64"};
    for (const char* every : {"1", "3"}) {
      Words worker = common;
      worker.insert(worker.end(),
                    {"strategy=downpour", "strategy.submasters=1", std::string("strategy.submaster_every=") + every});
      expect_near(trained_by_masters(toy_config(worker), 3), trained_alone(toy_config(common)));
    }
  }
}

TEST(SubMasters, TrainByEveryPreset) {
  for (const std::string preset : {"downpour", "asgd", "easgd", "dp-easgd", "gem", "decoupled-diloco"}) {
    const Config config = toy_config({"strategy=" + preset, "strategy.every=3", "strategy.submasters=2"});
    const Values found = trained_by_masters(config, 7);
    ASSERT_FALSE(found.empty()) << preset;
    EXPECT_TRUE(std::ranges::all_of(found, [](double each) { return std::isfinite(each); })) << preset;
    EXPECT_NE(found, values_of(tensors_of(make_network(config, toy())).parameters)) << preset << ": nothing moved";
  }
}

// Every worker of every group has different samples, and only the first worker reports.
TEST(SubMasters, HaveAllSamplesAndNoneTwiceAndTellOfEachWorker) {
  const testing::TemporaryFolder folder;
  const Config config = toy_config({"strategy=asgd", "strategy.submasters=2", "epochs=1", "batch=20",
                                    "run=" + folder.path() + "/run", "strategy.submaster_every=2"});
  const std::vector<Network> networks = networks_for(8, config, toy());
  std::vector<MastersResult> results(8);
  run_ranks(8, test_settings("shm"), [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    results[rank] = train_by_masters(config, world, networks[rank], toy());
  });
  for (std::size_t rank = 3; rank < 8; ++rank) {
    const std::size_t samples = (toy().train->size() + 7 - rank) / 5;
    EXPECT_EQ(results[rank].training.losses.size(), (samples + 3) / 4) << rank;
    EXPECT_EQ(results[rank].tells, rank == 3);
  }
  const Words& lines = results[0].lines;
  ASSERT_EQ(lines.size(), 7U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(lines[i].find("worker " + std::to_string(i) + "  " +
                            std::to_string(results[3 + i].training.losses.size()) + " exchanges"),
              0U)
        << lines[i];
  EXPECT_EQ(lines[5].find("sub-master 0  "), 0U) << lines[5];
  EXPECT_EQ(lines[6].find("sub-master 1  "), 0U) << lines[6];
  EXPECT_EQ(results[3].kept, folder.path() + "/run/model.safetensors");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/run/checkpoints"));
  const Fields kept = read_arrays(results[3].kept);
  for (const auto& [name, tensor] : tensors_of(networks[3]).parameters) EXPECT_NE(kept.find(name), nullptr) << name;
}

TEST(SubMasters, AreExplained) {
  const Config config = play_config({"strategy=easgd", "strategy.submasters=2", "strategy.submaster_every=5"});
  const std::vector<nn::NamedTensor> parameters{{"w", at::ones({250}, at::kDouble).set_requires_grad(true)}};
  const std::string text = explain_strategy(config, parameters, {}, 8) + explain_groups(config, parameters, 8);
  EXPECT_NE(
      text.find("bytes       each worker sends 2 kB and gets as much every 10 steps; to look at the masters' "
                "parameters it gets as much\n"
                "masters     rank 0 keeps the top's parameters; of groups\n"
                "            rank 1 those of workers 0 to 2 (ranks 3 to 5)\n"
                "            rank 2 those of workers 3 to 4 (ranks 6 to 7)\n"
                "            each sends the top 2 kB and gets as much after every 5 updates of its group, and once in "
                "the end\n"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace tutti::engine
