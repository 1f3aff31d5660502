// Every model in the table: the same losses on any number of ranks, and the same bits on all ranks.
#include <gtest/gtest.h>

#include "engine/config/tables.hpp"
#include "engine/data/formats/source.hpp"
#include "nn/sync_batch_norm.hpp"
#include "tests/engine/runs.hpp"

namespace tutti::engine {
namespace {

/// The smallest network of a model, as words of a configuration.
struct Small {
  std::string model, options, image;
  std::size_t norms = 0;  ///< number of BatchNorms, which normalise over all ranks
};

const std::vector<Small>& smallest() {
  static const std::vector<Small> models{
      {"mlp", "hidden=6", "1x4x4"},
      {"lenet", "", "1x4x4"},
      {"cifar", "", "1x8x8"},
      {"alexnet", "width=0.05 hidden=8 dropout=0", "1x8x8"},
      {"googlenet", "width=0.05 dropout=0 batchnorm=false", "1x8x8"},
      {"vgg16", "width=0.05 hidden=8 dropout=0 batchnorm=true", "1x8x8", 13},
      {"resnet18", "width=0.05", "1x8x8", 20},
      {"resnet50", "width=0.05", "1x16x16", 53},
      {"sparse", "filters=2", "1x8x8"},
      {"gpt", "layers=2 heads=2 embedding=8", ""},
  };
  return models;
}

/// A cycle of letters: the target of each letter is the next one.
DataSplit letters() {
  constexpr std::int64_t rows = 32, context = 6;
  std::vector<std::int64_t> now, next;
  for (std::int64_t i = 0; i < rows * context; ++i) {
    now.push_back(i * i % 11);
    next.push_back((i + 1) * (i + 1) % 11);
  }
  DataSplit data;
  data.train = data.test = std::make_shared<ArrayDataset>(
      Fields{{"input", Array(std::move(now), {rows, context})}, {"target", Array(std::move(next), {rows, context})}});
  data.inputs = {"input"};
  data.target = "target";
  data.classes = 11;
  return data;
}

class Trajectory : public ::testing::TestWithParam<Small> {};

Config config_of(const Small& small) {
  Config config;
  for (const char* word : {"dtype=float64", "progress=off", "batch=8", "epochs=1", "steps=3", "optimizer=momentum",
                           "lr=0.001", "sync.first_bucket_bytes=1K", "sync.bucket_bytes=16K"})
    config.set(word);
  config.model = {.name = small.model, .options = Options::parse(small.options)};
  return config;
}

DataSplit data_of(const Small& small) { return small.image.empty() ? letters() : load("random:" + small.image, 32, 1); }

TEST_P(Trajectory, DoesNotDependOnTheNumberOfRanks) {
  const Config config = config_of(GetParam());
  const DataSplit data = data_of(GetParam());
  const auto normalise_together = [](const Network& network, Communicator& world) {
    EXPECT_EQ(nn::convert_sync_batch_norm(*network.module, world), GetParam().norms);
  };
  const Trained alone = run_on(1, config, data);
  ASSERT_EQ(alone.result.losses.size(), 3U);
  EXPECT_NE(alone.result.losses[0], alone.result.losses[2]);
  for (const int ranks : {2, 4}) {
    const Trained together = run_on(ranks, config, data, no_hooks, normalise_together);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(together.result.losses[i] / alone.result.losses[i], 1, 1e-10) << ranks << " ranks, step " << i;
    EXPECT_LE(largest_difference(together.parameters, alone.parameters), 1e-10) << ranks;
  }
}

// A step is computed in grains of two samples, whatever the ranks, so a BatchNorm always normalises over two samples.
TEST_P(Trajectory, InGrainsHasTheSameBits) {
  Config config = config_of(GetParam());
  for (const char* word : {"dtype=float32", "deterministic=membership", "batch.grains=4", "steps=2"}) config.set(word);
  const DataSplit data = data_of(GetParam());
  const Trained alone = run_on(1, config, data), three = run_on(3, config, data);
  EXPECT_EQ(three.result.losses, alone.result.losses);
  EXPECT_TRUE(same_bits(three.parameters, alone.parameters));
}

INSTANTIATE_TEST_SUITE_P(OfTheRegistry, Trajectory, ::testing::ValuesIn(smallest()),
                         [](const auto& each) { return each.param.model; });

TEST(Trajectories, AreOfEveryModel) {
  std::vector<std::string> tested;
  for (const Small& each : smallest()) tested.push_back(each.model);
  for (const ChoiceInfo& each : model_table())
    EXPECT_NE(std::ranges::find(tested, each.name), tested.end()) << each.name << ": add it to smallest()";
}

}  // namespace
}  // namespace tutti::engine
