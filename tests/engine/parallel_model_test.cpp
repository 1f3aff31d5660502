// Models over meshes have the losses and parameters of one rank, and send as many bytes as planned. Ranks are threads.
#include "engine/data/formats/source.hpp"
#include "engine/models/parallel/parallel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <fstream>

#include "engine/models/parallel/parts.hpp"
#include "tests/engine/runs.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::refusal;
using tutti::testing::run_ranks;
using tutti::testing::test_settings;

struct Model {
  std::string name, options, data;
  std::vector<std::string> words = {};  ///< key=value words of the configuration
};

Config config_of(const Model& model) {
  Config config;
  for (const char* word : {"dtype=float64", "progress=none", "batch=8", "epochs=1", "steps=4", "optimizer=momentum",
                           "lr=0.01", "schedule=constant"})
    config.set(word);
  config.model = {.name = model.name, .options = Options::parse(model.options)};
  config.data.source = model.data;
  for (const std::string& word : model.words) config.set(word);
  return config;
}

int ranks_of(const std::string& mesh) {
  int ranks = 1;
  for (const Mesh::Axis& axis : Mesh::parse(mesh)) ranks *= axis.size;
  return ranks;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

void expect_the_same_run(const Model& model, const std::vector<std::string>& meshes) {
  const Config config = config_of(model);
  const DataSplit data = load(model.data, 30, 1);  // the last step has 6 samples
  const ModelSettings settings = settings_of(config, data);
  const std::vector<Network> one = networks_for(1, config, data);
  const TrainResult alone = train_these(one, config, data)[0];
  const auto wanted = tensors_of(one[0]).parameters;
  for (const std::string& text : meshes) {
    const std::vector<Network> given = networks_for(ranks_of(text), config, data);  // made before the ranks start
    run_ranks(ranks_of(text), test_settings("inproc"), [&](Communicator& world) {
      const Mesh mesh(world, Mesh::parse(text));
      const Network network =
          split_model(given[static_cast<std::size_t>(world.rank())], settings, mesh, split_choices(config));
      const TrainResult got = train(config, world, network, data);
      ASSERT_EQ(got.losses.size(), alone.losses.size());
      for (std::size_t i = 0; i < got.losses.size(); ++i)
        EXPECT_NEAR(got.losses[i], alone.losses[i], 1e-10) << model.name << " on " << mesh.name() << ", step " << i;
      EXPECT_NEAR(got.validations.back().loss, alone.validations.back().loss, 1e-10) << mesh.name();
      ASSERT_EQ(got.validations.back().metrics.size(), alone.validations.back().metrics.size());
      for (std::size_t i = 0; i < got.validations.back().metrics.size(); ++i)
        EXPECT_NEAR(got.validations.back().metrics[i].second, alone.validations.back().metrics[i].second, 1e-12);
      const auto mine = tensors_of(network).parameters;
      ASSERT_EQ(mine.size(), wanted.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_EQ(mine[i].first, wanted[i].first);
        const at::Tensor part = network.parts->part_of(wanted[i].first, wanted[i].second.detach());
        EXPECT_LE(difference(part, mine[i].second.detach()), 1e-10) << mine[i].first << " on " << mesh.name();
      }
    });
  }
}

/// A folder with a text of many words.
class Texts {
 public:
  Texts() {
    std::ofstream out(folder_.path() + "/words.txt");
    for (int i = 0; i < 80; ++i) out << "word " << i * i << (i % 3 == 0 ? ", " : "; ");
  }
  std::string source(int context) const { return "text:" + folder_.path() + ",context=" + std::to_string(context); }

 private:
  const tutti::testing::TemporaryFolder folder_;
};

TEST(ParallelModel, ImagesInTiles) {
  expect_the_same_run({"lenet", "", "random:1x9x8"}, {"data=1,height=2", "data=1,height=2,width=2", "data=2,width=2"});
  expect_the_same_run({"cifar", "", "random:3x11x8"},
                      {"data=1,height=3", "data=1,height=2,width=2", "data=2,height=2"});
  expect_the_same_run({"lenet", "", "random:1x9x8"}, {"data=2,height=2,width=2"});
}

TEST(ParallelModel, DenseLayersInParts) {
  expect_the_same_run({"mlp", "hidden=7,5", "random:1x4x4"}, {"data=1,tensor=2", "data=1,tensor=3", "data=2,tensor=2"});
  expect_the_same_run({"lenet", "", "random:1x9x8"}, {"data=1,tensor=2", "data=1,width=2,tensor=2"});
}

TEST(ParallelModel, AStrategyForEachLayer) {
  const auto with = [](const std::string& layers) {
    return Model{"lenet", "", "random:1x9x8", {"parallel.layers=" + layers}};
  };
  expect_the_same_run(with("conv1=replicate,conv2=space,fc1=space"), {"data=1,height=2", "data=1,width=2,tensor=2"});
  expect_the_same_run(with("conv2=replicate,pool2=space,fc1=row,fc2=column"), {"data=1,height=2,tensor=2"});
  expect_the_same_run(with("fc1=column,fc2=replicate"), {"data=1,tensor=3"});
  expect_the_same_run({"mlp", "hidden=7,5", "random:1x4x4", {"parallel=vecpar"}},
                      {"data=1,tensor=2", "data=1,tensor=3", "data=1,tensor=4", "data=1,tensor=5"});
}

TEST(ParallelModel, ATransformersHeadsAndPositionsInParts) {
  const Texts texts;
  const std::string options = "layers=2 heads=4 embedding=8";
  expect_the_same_run({"gpt", options, texts.source(9)},
                      {"data=1,tensor=2", "data=1,tensor=3", "data=1,sequence=2", "data=2,tensor=2"});
  expect_the_same_run({"gpt", options + " tie=false", texts.source(9), {"parallel.layers=block2=replicate"}},
                      {"data=1,sequence=2,tensor=2"});
  expect_the_same_run({"gpt", "layers=2 heads=2 embedding=8", texts.source(9)}, {"data=1,sequence=3"});  // by a ring
}

TEST(ParallelModel, GradientsAreClippedByTheWholeNetworksNorm) {
  const std::vector<std::string> clip = {"clip=0.05"};
  expect_the_same_run({"lenet", "", "random:1x9x8", clip}, {"data=1,height=2,tensor=2"});
  expect_the_same_run({"mlp", "hidden=7", "random:1x4x4", clip}, {"data=2,tensor=2", "data=1,width=2"});
}

TEST(ParallelModel, BatchNormsOfAllSamples) {
  expect_the_same_run(
      {"vgg16", "width=0.05 hidden=8 dropout=0 batchnorm=true", "random:1x8x8", {"sync.batch_norm=true"}},
      {"data=2,height=2"});
}

TEST(ParallelModel, FiltersOfEachPositionsOwn) {
  expect_the_same_run({"sparse", "filters=3,4", "random:2x20x18"}, {"data=1,height=2,width=2", "data=2,width=3"});
}

TEST(ParallelModel, OfManyLayers) {
  expect_the_same_run({"alexnet", "width=0.05 hidden=8 dropout=0", "random:1x8x8"}, {"data=1,height=2,tensor=2"});
  expect_the_same_run({"vgg16", "width=0.05 hidden=8 dropout=0 batchnorm=true", "random:1x8x8"},
                      {"data=1,height=2,width=2"});
}

TEST(ParallelModel, NetworksOfBlocks) {
  const std::string size = "random:1x8x8";
  expect_the_same_run({"resnet18", "width=0.05", size}, {"data=1,height=2,width=2"});
  expect_the_same_run({"resnet18", "width=0.05", size, {"sync.batch_norm=true"}}, {"data=2,width=2"});
  expect_the_same_run({"resnet50", "width=0.05", "random:1x16x16", {"steps=2"}}, {"data=1,height=2"});
  expect_the_same_run({"googlenet", "width=0.05 dropout=0", size}, {"data=1,width=2"});
}

/// The bytes of one step must be those of the plan, in both directions and on every rank.
void expect_the_planned_bytes(const Model& model, const std::vector<std::string>& meshes) {
  const Config config = config_of(model);
  const DataSplit data = load(model.data, 16, 1);
  const ModelSettings settings = settings_of(config, data);
  for (const std::string& text : meshes) {
    const std::vector<Network> given = networks_for(ranks_of(text), config, data);
    run_ranks(ranks_of(text), test_settings("inproc"), [&](Communicator& world) {
      const Mesh mesh(world, Mesh::parse(text));
      const Network network =
          split_model(given[static_cast<std::size_t>(world.rank())], settings, mesh, split_choices(config));
      const Layout& layout = network.parts->layout();
      const auto sent = [&] {
        std::uint64_t bytes = 0;
        for (const nn::Group& group : {layout.space.group(), layout.tensor, layout.sequence}) {
          bytes += group->traffic().bytes;
          group->reset_traffic();
        }
        return bytes;
      };
      constexpr std::int64_t samples = 3;
      std::vector<std::int64_t> sizes{samples};
      sizes.insert(sizes.end(), settings.input.begin(), settings.input.end());
      const at::Tensor input = settings.name == "gpt" ? at::zeros(sizes, at::kLong) : at::ones(sizes, at::kDouble);
      sent();
      const at::Tensor output = network.forward(input);
      const std::uint64_t forward = sent();
      output.sum().backward();
      const std::uint64_t backward = sent();
      const std::vector<LayerCost> plan =
          plan_parallel_model(settings, mesh.axes(), world.rank(), split_choices(config));
      std::uint64_t there = 0, back = 0, weights = 0, here = 0;
      for (const LayerCost& cost : plan) {
        there += 8 * static_cast<std::uint64_t>(cost.sent_forward(samples));
        back += 8 * static_cast<std::uint64_t>(cost.sent_backward(samples));
        weights += static_cast<std::uint64_t>(cost.weights);
      }
      for (const auto& [name, tensor] : tensors_of(network).parameters)
        here += static_cast<std::uint64_t>(tensor.numel());
      EXPECT_EQ(forward, there) << model.name << " on " << mesh.name() << ", rank " << world.rank();
      EXPECT_EQ(backward, back) << model.name << " on " << mesh.name() << ", rank " << world.rank();
      EXPECT_EQ(weights, here) << mesh.name();
      EXPECT_GT(there + back, 0U);
    });
  }
}

TEST(ParallelModel, SendsWhatIsPlanned) {
  expect_the_planned_bytes({"lenet", "", "random:1x9x8"},
                           {"data=1,height=2,width=2", "data=1,tensor=2", "data=1,width=2,tensor=2"});
  expect_the_planned_bytes({"lenet", "", "random:1x9x8", {"parallel.layers=conv2=replicate,pool2=space,fc1=row"}},
                           {"data=1,height=2,tensor=2"});
  expect_the_planned_bytes({"cifar", "", "random:3x11x8"}, {"data=1,height=3"});
  expect_the_planned_bytes({"googlenet", "width=0.05 dropout=0 batchnorm=false", "random:1x8x8"}, {"data=1,width=2"});
  expect_the_planned_bytes({"mlp", "hidden=7,5", "random:1x4x4"}, {"data=1,tensor=3", "data=1,width=2"});
  expect_the_planned_bytes({"mlp", "hidden=7,5", "random:1x4x4", {"parallel=vecpar"}}, {"data=1,tensor=3"});
  expect_the_planned_bytes({"sparse", "filters=3,4", "random:2x20x18"}, {"data=1,height=2,width=2"});
  const Texts texts;
  expect_the_planned_bytes({"gpt", "layers=2 heads=4 embedding=8", texts.source(9)},
                           {"data=1,tensor=3", "data=1,sequence=2,tensor=2"});
  expect_the_planned_bytes({"gpt", "layers=2 heads=2 embedding=8", texts.source(9)}, {"data=1,sequence=3"});
}

std::int64_t all_of(const std::vector<LayerCost>& plan, std::int64_t LayerCost::*what) {
  std::int64_t sum = 0;
  for (const LayerCost& cost : plan) sum += cost.*what;
  return sum;
}

TEST(ParallelModel, EachRankKeepsItsShareOfWeightsAndActivations) {
  const ModelSettings tower{.name = "vgg16", .input = {3, 64, 64}, .options = {{"width", "0.1"}, {"hidden", "16"}}};
  const ModelSettings dense{.name = "mlp", .input = {1, 8, 8}, .options = {{"hidden", "256"}}};
  for (const int ranks : {2, 4}) {
    const std::vector<Mesh::Axis> tiles{{"data", 1}, {"height", ranks}}, tensor{{"data", 1}, {"tensor", ranks}};
    const auto whole = static_cast<double>(all_of(plan_parallel_model(tower, {{"data", 1}}, 0), &LayerCost::outputs));
    const auto weights = static_cast<double>(all_of(plan_parallel_model(dense, {{"data", 1}}, 0), &LayerCost::weights));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto kept = static_cast<double>(all_of(plan_parallel_model(tower, tiles, rank), &LayerCost::outputs));
      EXPECT_NEAR(kept * ranks / whole, 1, 0.05);
      EXPECT_GT(all_of(plan_parallel_model(tower, tiles, rank), &LayerCost::halo), 0);
      const auto part = static_cast<double>(all_of(plan_parallel_model(dense, tensor, rank), &LayerCost::weights));
      EXPECT_NEAR(part * ranks / weights, 1, 0.05);
    }
  }
}

/// Returns the arrays of a checkpoint's file, by name.
Fields kept_in(const std::filesystem::path& run, std::size_t step, const char* file) {
  return read_arrays(run / "checkpoints" / ("step-" + std::to_string(step)) / file);
}

void expect_equal(const Fields& a, const Fields& b) {
  std::size_t count = 0;
  for (const auto& [name, array] : a) {
    const Array* other = b.find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(array.shape(), other->shape()) << name;
    EXPECT_TRUE(std::ranges::equal(array.bytes(), other->bytes())) << name;
    ++count;
  }
  EXPECT_GT(count, 0U);
}

class ParallelRun : public RunFolderTest {
 protected:
  /// Trains until `steps` on a mesh, or on one rank if `mesh_text` is empty. Resumes if the folder of the run exists.
  TrainResult run(const Model& model, const std::string& mesh_text, const std::string& run, const char* steps) {
    Config config = config_of(model);
    config.set("run=" + folder(run));
    config.set("steps=" + std::string(steps));
    config.set("checkpoint.resume=" + std::string(std::filesystem::exists(folder(run)) ? "true" : "false"));
    const DataSplit data = load(model.data, 32, 1);
    const int ranks = mesh_text.empty() ? 1 : ranks_of(mesh_text);
    const std::vector<Network> given = networks_for(ranks, config, data);
    TrainResult result;
    run_ranks(ranks, test_settings("inproc"), [&](Communicator& world) {
      Network network = given[static_cast<std::size_t>(world.rank())];
      if (!mesh_text.empty())
        network =
            split_model(network, settings_of(config, data), Mesh(world, Mesh::parse(mesh_text)), split_choices(config));
      const TrainResult mine = train(config, world, network, data);
      if (world.rank() == 0) result = mine;
    });
    return result;
  }
  void copy(const std::string& from, const std::string& to) {
    std::filesystem::copy(folder(from), folder(to),
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  }
};

TEST_F(ParallelRun, ACheckpointIsReadOnAnyOtherMesh) {
  const Texts texts;
  const std::vector<std::pair<Model, std::vector<std::string>>> cases = {
      {{"lenet", "", "random:1x9x8"}, {"data=1,height=2,tensor=2", "data=2,width=2", "data=1,tensor=3", ""}},
      {{"sparse", "filters=3,4", "random:2x20x18"}, {"data=1,height=2,width=2", ""}},
      {{"gpt", "layers=1 heads=4 embedding=8", texts.source(9), {"optimizer=adamw"}},
       {"data=1,tensor=3", "data=1,sequence=2", ""}},
      {{"vgg16", "width=0.05 hidden=8 dropout=0 batchnorm=true", "random:1x8x8"}, {"data=1,height=2", ""}}};
  for (const auto& [model, meshes] : cases) {
    const TrainResult through = run(model, "", "through", "4");
    for (const std::string& wrote : meshes) {
      run(model, wrote, "first", "2");
      for (const std::string& reads : meshes) {
        copy("first", "again");  // no step is left: what is read is written again
        run(model, reads, "again", "2");
        expect_equal(kept_in(folder("again"), 2, "model.safetensors"),
                     kept_in(folder("first"), 2, "model.safetensors"));
        expect_equal(kept_in(folder("again"), 2, "optimizer.safetensors"),
                     kept_in(folder("first"), 2, "optimizer.safetensors"));
        const TrainResult result = run(model, reads, "again", "4");
        ASSERT_EQ(result.losses.size(), through.losses.size());
        for (std::size_t i = 0; i < result.losses.size(); ++i)
          EXPECT_NEAR(result.losses[i], through.losses[i], 1e-10) << wrote << " then " << reads << ", step " << i;
        std::filesystem::remove_all(folder("again"));
      }
      std::filesystem::remove_all(folder("first"));
    }
    clear();
  }
}

TEST(ParallelModel, SaysWhatCannotBeSplit) {
  const auto says = [&](const ModelSettings& settings, const std::string& mesh,
                        const std::string& words = "parallel=auto", Code code = Code::unsupported) {
    Config config;
    config.set(words);
    return refusal([&] { plan_parallel_model(settings, Mesh::parse(mesh), 0, split_choices(config)); }, code);
  };
  const ModelSettings lenet{.name = "lenet", .input = {1, 8, 8}}, mlp{.name = "mlp", .input = {1, 8, 8}};
  EXPECT_THAT(says({.name = "resnet18", .input = {1, 8, 8}, .options = {{"width", "0.05"}}}, "data=1,height=2",
                   "parallel.layers=stem=space"),
              HasSubstr("model=resnet18"));
  EXPECT_THAT(says(lenet, "data=1,height=2", "parallel.layers=conv2=column"),
              AllOf(HasSubstr("conv2"), HasSubstr("48 filters"), HasSubstr("mesh data 1 x height 2"),
                    HasSubstr("column is for dense layers")));
  EXPECT_THAT(says(mlp, "data=1,height=4", "parallel=halopar"),
              AllOf(HasSubstr("fc1"), HasSubstr("128 units"), HasSubstr("height 4"), HasSubstr("vecpar")));
  EXPECT_THAT(says(mlp, "data=1,tensor=16", "parallel.layers=fc2=column", Code::invalid),
              AllOf(HasSubstr("fc2"), HasSubstr("10 outputs"), HasSubstr("mesh data 1 x tensor 16")));
  EXPECT_THAT(says(mlp, "data=1,tensor=2", "parallel.layers=fc2=space"), AllOf(HasSubstr("fc2"), HasSubstr("space")));
  EXPECT_THAT(says(mlp, "data=1,tensor=2", "parallel.layers=fc9=row", Code::invalid),
              AllOf(HasSubstr("fc9"), HasSubstr("fc1, fc2")));
  EXPECT_THAT(says(mlp, "data=1,sequence=2"), AllOf(HasSubstr("model=mlp"), HasSubstr("sequence")));
  EXPECT_THAT(says(lenet, "data=1,depth=2"), AllOf(HasSubstr("model=lenet"), HasSubstr("depth")));
  const ModelSettings gpt{.name = "gpt", .input = {16}, .options = {{"heads", "4"}, {"embedding", "8"}}};
  EXPECT_THAT(says(gpt, "data=1,tensor=8"),
              AllOf(HasSubstr("block1"), HasSubstr("4 heads, width 8"), HasSubstr("tensor 8")));
  EXPECT_THAT(says(gpt, "data=1,height=2"), AllOf(HasSubstr("model=gpt"), HasSubstr("height 2")));
}

TEST(ParallelModel, TheTrainerWantsTheNetworkThatTheConfigurationMeans) {
  run_ranks(2, test_settings("inproc"), [](Communicator& world) {
    const Config config = config_of({"mlp", "", "random:1x4x4", {"parallel.tensor=2"}});
    const DataSplit data = load("random:1x4x4", 8, 1);
    EXPECT_THAT(refusal([&] { train(config, world, make_network(config, data), data); }),
                AllOf(HasSubstr("tensor 2"), HasSubstr("spread()")));
  });
}

}  // namespace
}  // namespace tutti::engine
