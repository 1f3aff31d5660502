// Models over meshes have the losses and the parameters of one rank. Ranks are threads.
#include "engine/models/parallel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/parallel/module.hpp"
#include "tests/engine/runs.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;
using tutti::testing::refusal;

struct Model {
  std::string name, options, image;
};

Config config_of(const Model& model) {
  Config config;
  for (const char* word :
       {"dtype=float64", "progress=none", "batch=8", "epochs=1", "steps=4", "optimizer=momentum", "lr=0.01"})
    config.set(word);
  config.model = {.name = model.name, .options = Options::parse(model.options)};
  return config;
}

ModelSettings settings_of(const Model& model, const DataSplit& data) {
  const ImageShape image = data.image();
  const auto side = [](auto number) { return static_cast<std::int64_t>(number); };
  ModelSettings settings{.name = model.name, .input = {side(image.channels), side(image.height), side(image.width)}};
  settings.classes = static_cast<std::int64_t>(data.classes);
  settings.options = Options::parse(model.options);
  settings.dtype = "float64";
  return settings;
}

void expect_the_same_run(const Model& model, const std::vector<std::string>& meshes) {
  const Config config = config_of(model);
  const DataSplit data = load("random:" + model.image, 32, 1);
  const ModelSettings settings = settings_of(model, data);
  const std::vector<Network> one = networks_for(1, config, data);
  const TrainResult alone = train_these(one, config, data)[0];
  const auto wanted = tensors_of(one[0]).parameters;
  for (const std::string& text : meshes) {
    int ranks = 1;
    for (const Mesh::Axis& axis : Mesh::parse(text)) ranks *= axis.size;
    const std::vector<Network> given = networks_for(ranks, config, data);  // one after the other: see there
    tutti::testing::run_ranks(ranks, tutti::testing::test_settings("inproc"), [&](Communicator& world) {
      const Mesh mesh(world, Mesh::parse(text));
      const Network network = split_model(given[static_cast<std::size_t>(world.rank())], settings, mesh);
      const TrainResult got = train(config, mesh["data"], network, data);
      ASSERT_EQ(got.losses.size(), alone.losses.size());
      for (std::size_t i = 0; i < got.losses.size(); ++i)
        EXPECT_NEAR(got.losses[i], alone.losses[i], 1e-10) << model.name << " on " << mesh.name() << ", step " << i;
      for (const nn::ParameterPart& each : nn::parameter_parts(*network.module)) {
        const auto whole = std::ranges::find(wanted, each.name, &nn::NamedTensor::first);
        ASSERT_NE(whole, wanted.end()) << each.name;
        Box all;
        for (const std::int64_t size : each.sizes) all.push_back({0, size});
        const at::Tensor part = nn::slice(whole->second.detach().reshape(each.sizes), all,
                                          each.boxes[static_cast<std::size_t>(each.group->rank())]);
        if (part.numel() == 0) continue;
        EXPECT_LE((part - each.part.detach()).abs().max().item<double>(), 1e-10) << each.name << " on " << mesh.name();
      }
    });
  }
}

TEST(ParallelModel, ImagesInTiles) {
  expect_the_same_run({"lenet", "", "1x9x8"}, {"data=1,height=2", "data=1,height=2,width=2", "data=2,width=2"});
  expect_the_same_run({"cifar", "", "3x11x8"}, {"data=1,height=3", "data=1,height=2,width=2", "data=2,height=2"});
}

TEST(ParallelModel, DenseLayersInParts) {
  expect_the_same_run({"mlp", "hidden=7,5", "1x4x4"}, {"data=1,tensor=2", "data=1,tensor=3", "data=2,tensor=2"});
  expect_the_same_run({"lenet", "", "1x9x8"}, {"data=1,tensor=2", "data=1,width=2,tensor=2"});
}

TEST(ParallelModel, OfManyLayers) {
  expect_the_same_run({"alexnet", "width=0.05 hidden=8 dropout=0", "1x8x8"}, {"data=1,height=2,tensor=2"});
  expect_the_same_run({"vgg16", "width=0.05 hidden=8 dropout=0 batchnorm=true", "1x8x8"}, {"data=1,height=2,width=2"});
}

TEST(ParallelModel, SaysWhatCannotBeSplit) {
  tutti::testing::run_ranks(2, tutti::testing::test_settings("inproc"), [](Communicator& world) {
    const Mesh mesh(world, {{"height", 2}});
    const auto says = [&](const std::string& name, const Options::Given& options = {}) {
      const ModelSettings settings{.name = name, .input = {1, 8, 8}, .options = options};
      return refusal([&] { make_parallel_model(settings, mesh); }, Code::unsupported);
    };
    EXPECT_THAT(says("resnet18", {{"width", "0.05"}}), HasSubstr("model=resnet18"));
  });
}

}  // namespace
}  // namespace tutti::engine
