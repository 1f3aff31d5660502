// Options of a configuration: compression of gradients, and batch normalisation over all ranks. Ranks are
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include "engine/data/formats/source.hpp"
#include "engine/models/chain.hpp"
#include "tests/engine/runs.hpp"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;

Config mlp_config(const std::vector<std::string>& words = {}) {
  Config config;
  for (const char* word : {"dtype=float64", "progress=off", "batch=10", "model=mlp", "hidden=16", "optimizer=momentum",
                           "lr=0.1", "schedule=constant", "epochs=2"})
    config.set(word);
  for (const std::string& word : words) config.set(word);
  return config;
}

// 103 samples are ten steps of 10 and one of 3.
DataSplit images(std::size_t samples = 103) { return load("random:1x6x6", samples, 1); }

TEST(SyncCompression, OfEverythingChangesNothing) {
  const Trained plain = run_on(2, mlp_config(), images());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"sync.compression=top_k", "sync.top_k=1"},
        {"sync.compression=power_sgd", "sync.power_rank=36", "sync.least_saving=0"}}) {
    const Trained got = run_on(2, mlp_config(words), images());
    EXPECT_LE(largest_difference(got.result.losses, plain.result.losses), 1e-10) << words[0];
    EXPECT_LE(largest_difference(got.parameters, plain.parameters), 1e-10) << words[0];
  }
}

TEST(SyncCompression, RoundsOrLeavesOut) {
  const Trained plain = run_on(2, mlp_config(), images());
  for (const auto& [word, least, most] : {std::tuple{"sync.compression=f16", 1e-9, 1e-2},
                                          {"sync.compression=bf16", 1e-8, 1e-1},
                                          {"sync.compression=top_k", 1e-4, 1.0},
                                          {"sync.compression=power_sgd", 1e-4, 1.0}}) {
    const Trained got = run_on(2, mlp_config({word}), images());
    EXPECT_GT(largest_difference(got.result.losses, plain.result.losses), least) << word;
    EXPECT_LT(largest_difference(got.result.losses, plain.result.losses), most) << word;
  }
}

TEST(SyncCompression, IsRefusedWhereItCannotBe) {
  EXPECT_THAT(failure([] { run_on(1, mlp_config({"sync.compression=zip"}), images()); }),
              HasSubstr("strategy.codec=zip: expected one of none, f16"));
  EXPECT_THAT(failure([] {
                run_on(1, mlp_config({"sync.compression=top_k", "sync.top_k=2"}), images());
              }),
              HasSubstr("a part of the values above 0"));
  EXPECT_THAT(failure([] {
                run_on(1, mlp_config({"sync.compression=f16", "deterministic=membership"}), images());
              }),
              HasSubstr("deterministic=membership"));
}

class ResumedCompression : public RunFolderTest {};

// Each rank has its own compression errors, which a checkpoint must keep.
TEST_F(ResumedCompression, ContinuesWithTheSameBits) {
  for (const char* word : {"sync.compression=top_k", "sync.compression=power_sgd"}) {
    Config config = mlp_config({word, "steps=18", "checkpoint.every_steps=4"});
    config.run = folder("whole");
    const Trained whole = run_on(2, config, images());
    config.run = folder("parted");
    EXPECT_THROW(run_on(2, config, images(), interrupt_after(9)), std::runtime_error);
    config.checkpoint.resume = "true";
    const Trained parted = run_on(2, config, images());
    EXPECT_EQ(parted.result.losses, whole.result.losses) << word;
    EXPECT_TRUE(same_bits(parted.parameters, whole.parameters)) << word;
    clear();
  }
}

Network normed() {
  torch::manual_seed(7);
  const auto module = std::make_shared<Chain>(
      SampleShape{1, 6, 6},
      std::vector<Layer>{conv_layer(4, 3, 1, 0, false), norm_layer(), plain_layer(Layer::Kind::relu),
                         plain_layer(Layer::Kind::flatten), linear_layer(8), norm_layer(), linear_layer(0)},
      10);
  module->to(at::kDouble);
  return {.module = module, .forward = [raw = module.get()](const at::Tensor& x) { return raw->forward(x); }};
}

std::vector<TrainResult> train_normed(int ranks, const Config& config, std::size_t samples = 103) {
  std::vector<Network> networks;
  for (int r = 0; r < ranks; ++r) networks.push_back(normed());
  return train_these(networks, config, images(samples));
}

// The last step has three samples, so the fourth rank has none.
TEST(SyncBatchNorm, LossCurveDoesNotDependOnTheNumberOfRanks) {
  const TrainResult alone = train_normed(1, mlp_config())[0];
  // Without sync.batch_norm the losses depend on the ranks, and a rank with one sample cannot normalise at all.
  EXPECT_GT(
      largest_difference(train_normed(2, mlp_config(), 100)[0].losses, train_normed(1, mlp_config(), 100)[0].losses),
      1e-4);
  for (const int ranks : {1, 2, 3, 4})
    for (const TrainResult& result : train_normed(ranks, mlp_config({"sync.batch_norm=true"}))) {
      EXPECT_LE(largest_difference(result.losses, alone.losses), 1e-10) << ranks << " ranks";
      EXPECT_NEAR(result.epochs.back().test_loss, alone.epochs.back().test_loss, 1e-10);
    }
}

struct Typed : torch::nn::Module {
  Typed() { to(at::kDouble); }
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x.flatten(1)); }
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(36));
};

TEST(SyncBatchNorm, IsRefusedWhereItCannotBe) {
  const auto failed = [](const Network& network, const std::vector<std::string>& words) {
    std::vector<std::string> all{"sync.batch_norm=true"};
    all.insert(all.end(), words.begin(), words.end());
    return failure([&] { train_these({network}, mlp_config(all), images()); });
  };
  const auto typed = std::make_shared<Typed>();
  EXPECT_THAT(failed({.module = typed, .forward = [=](const at::Tensor& x) { return typed->forward(x); }}, {}),
              HasSubstr("'norm' is a BatchNorm"));
  EXPECT_THAT(failed(make_network(mlp_config(), images()), {}), HasSubstr("has no BatchNorm"));
  for (const char* word : {"batch.micro=2", "deterministic=membership", "sync.rule=avg"})
    EXPECT_THAT(failed(normed(), {word}), HasSubstr("all samples of a step at once")) << word;
}

}  // namespace
}  // namespace tutti::engine
