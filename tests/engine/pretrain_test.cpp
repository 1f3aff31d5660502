// Greedy learning without classes: any mesh has the losses of one rank; parameters that do not learn keep their bits.
#include "engine/loop/pretrain.hpp"
#include "engine/data/formats/source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/models/parallel/parallel.hpp"
#include "engine/models/parallel/parts.hpp"
#include "engine/models/parallel/sparse.hpp"
#include "tests/engine/runs.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;
using tutti::testing::refusal;
using tutti::testing::run_ranks;
using tutti::testing::test_settings;

Config config_of(bool tied) {
  Config config;
  for (const char* word :
       {"dtype=float64", "progress=none", "batch=8", "epochs=1", "model=sparse", "model.filters=3,4",
        "optimizer=momentum", "lr=0.002", "num_pretrain_epochs=2", "num_initial_epochs=1", "sparsity=0.05"})
    config.set(word);
  config.set(std::string("tied_weights=") + (tied ? "true" : "false"));
  config.data.source = "random:2x20x18";
  return config;
}

struct Done {
  Pretraining pretraining;
  TrainResult training;
};

/// Trains on a mesh, or on one rank if `mesh_text` is empty, as `tutti train` does. Returns rank 0's results.
Done run(const Config& config, const std::string& mesh_text) {
  const DataSplit data = load(config.data.source, 30, 1);
  int ranks = 1;
  for (const Mesh::Axis& axis : Mesh::parse(mesh_text.empty() ? "data=1" : mesh_text)) ranks *= axis.size;
  const std::vector<Network> given = networks_for(ranks, config, data);
  Done done;
  run_ranks(ranks, test_settings("inproc"), [&](Communicator& world) {
    Network network = given[static_cast<std::size_t>(world.rank())];
    if (!mesh_text.empty())
      network = split_model(network, settings_of(config, data), Mesh(world, Mesh::parse(mesh_text)), {});
    Done mine{.pretraining = pretrain(config, world, network, data), .training = {}};
    mine.training = train(config, world, network, data);
    if (world.rank() == 0) done = std::move(mine);
  });
  return done;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-10 * std::max(1.0, std::abs(wanted[i]))) << what << ", step " << i;
}

TEST(Pretrain, AnyMeshHasTheLossesOfOneRankTiedAndUntied) {
  for (const bool tied : {true, false}) {
    const Config config = config_of(tied);
    const Done alone = run(config, "");
    ASSERT_EQ(alone.pretraining.losses.size(), 2U);
    for (const std::vector<double>& stage : alone.pretraining.losses) {
      EXPECT_EQ(stage.size(), 8U);
      EXPECT_LT(stage.back(), stage.front());
    }
    EXPECT_EQ(alone.pretraining.head_losses.size(), 4U);
    for (const char* mesh : {"data=1,height=2,width=2", "data=2,width=2", "data=1,height=3"}) {
      const Done split = run(config, mesh);
      for (std::size_t i = 0; i < 2; ++i)
        expect_near(split.pretraining.losses[i], alone.pretraining.losses[i], mesh + std::string(", filters"));
      expect_near(split.pretraining.head_losses, alone.pretraining.head_losses, mesh + std::string(", head"));
      expect_near(split.training.losses, alone.training.losses, mesh + std::string(", all"));
    }
  }
}

TEST(Pretrain, UntiedFiltersLearnAnotherWay) {
  EXPECT_NE(run(config_of(true), "").pretraining.losses[0].back(),
            run(config_of(false), "").pretraining.losses[0].back());
}

TEST(Pretrain, WhatDoesNotLearnKeepsItsBitsAndFiltersTheirLength) {
  Config config = config_of(true);
  const DataSplit data = load(config.data.source, 30, 1);
  const std::vector<Network> given = networks_for(2, config, data);
  run_ranks(2, test_settings("inproc"), [&](Communicator& world) {
    const Network network = split_model(given[static_cast<std::size_t>(world.rank())], settings_of(config, data),
                                        Mesh(world, Mesh::parse("data=1,height=2")), {});
    Config only = config;
    const auto parameters = tensors_of(network).parameters;
    ASSERT_EQ(parameters.size(), 4U);  // two filters, and the head's weight and bias
    std::vector<at::Tensor> before = copies_of(network);
    only.pretrain.head_epochs = 0;
    pretrain(only, world, network, data);
    std::vector<at::Tensor> after = copies_of(network);
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_EQ(after[i].equal(before[i]), parameters[i].first.starts_with("head.")) << parameters[i].first;
    only = config;
    only.pretrain.epochs = 0;
    before = after;
    pretrain(only, world, network, data);
    after = copies_of(network);
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].equal(before[i]), !parameters[i].first.starts_with("head.")) << parameters[i].first;
      EXPECT_TRUE(parameters[i].second.requires_grad());
    }
    train(config, world, network, data);
    for (const auto& [name, tensor] : parameters)
      if (name.starts_with("filter")) {
        EXPECT_LE((tensor.detach().pow(2).sum({3, 4, 5}).sqrt() - 1).abs().max().item<double>(), 1e-12) << name;
      }
  });
}

TEST(Pretrain, SendsNoGradientOfAFilter) {
  for (const LayerCost& cost : plan_parallel_model(settings_of(config_of(true), load("random:2x20x18", 4, 1)),
                                                   Mesh::parse("data=1,height=2"), 0)) {
    EXPECT_EQ(cost.backward_once, 0);
    EXPECT_GT(cost.forward, 0);
  }
}

TEST(Pretrain, IsForNetworksThatRebuildWhatTheySee) {
  Config config = config_of(true);
  config.model = {.name = "mlp", .options = {}};
  const DataSplit data = load("random:1x4x4", 8, 1);
  const Network network = make_network(config, data);
  run_ranks(1, test_settings("inproc"), [&](Communicator& world) {
    EXPECT_THAT(refusal([&] { pretrain(config, world, network, data); }), HasSubstr("model=sparse"));
  });
}

}  // namespace
}  // namespace tutti::engine
