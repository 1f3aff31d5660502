// The training loop with ranks as threads: hooks, loss curves, weighted remainders, accuracy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <cmath>

#include "engine/data/formats/source.hpp"
#include "engine/models/model.hpp"
#include "nn/tensor_device.hpp"
#include "tests/engine/trainings.hpp"
#include "tests/support/fake_tensor_device.hpp"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Trainer, LossCurveDoesNotDependOnTheNumberOfRanks) {
  const Config config = small_config();
  const DataSplit data = load(config.data.source, 103, 1);  // 103 = 10 batches of 10 and one of 3
  const TrainResult alone = train_with(1, config, data)[0];
  EXPECT_EQ(alone.losses.size(), 33U);
  for (int size : {2, 3, 4})
    for (const TrainResult& result : train_with(size, config, data)) {
      EXPECT_LE(largest_difference(result.losses, alone.losses), 1e-10) << size << " ranks";
      for (std::size_t e = 0; e < 3; ++e) {
        EXPECT_NEAR(result.epochs[e].train_loss, alone.epochs[e].train_loss, 1e-10);
        EXPECT_NEAR(result.epochs[e].test_loss, alone.epochs[e].test_loss, 1e-10);
        EXPECT_EQ(result.epochs[e].metrics, alone.epochs[e].metrics);
      }
    }
}

TEST(Trainer, AllRanksReportTheSameFigures) {
  const Config config = small_config();
  const std::vector<TrainResult> results = train_with(3, config, load(config.data.source, 103, 1));
  for (const TrainResult& result : results)
    for (std::size_t e = 0; e < 3; ++e) {
      EXPECT_EQ(result.epochs[e].samples_per_second, results[0].epochs[e].samples_per_second);
      EXPECT_EQ(result.epochs[e].phases, results[0].epochs[e].phases);
      EXPECT_EQ(result.epochs[e].waited_for, results[0].epochs[e].waited_for);
      EXPECT_GT(result.epochs[e].samples_per_second, 0);
    }
}

TEST(Trainer, AnUnknownWayToDealOutIsRefused) {
  Config config = small_config();
  config.data.way = "at random";
  EXPECT_THROW(train_with(1, config, load(config.data.source, 40, 1)), std::runtime_error);
}

// Batches are copied to a device, and gradients are exchanged in buckets there. The bits must not change.
TEST(Trainer, OnADeviceTheLossCurveIsTheSame) {
  tutti::testing::FakeAccelerator& gpu = tutti::testing::use_fake_accelerator();
  Config config = small_config();
  const DataSplit data = load(config.data.source, 103, 1);
  for (const char* dtype : {"float64", "float32"}) {
    config.dtype = dtype;
    for (const int size : {1, 2}) {
      const TrainResult on_cpu = train_with(size, config, data)[0];
      gpu.stumble(true);
      const auto tensor_devices = [&](int rank) { return tutti::testing::fake_tensor_device(gpu, rank % 2); };
      for (const TrainResult& result : train_with(size, config, data, no_hooks, tensor_devices)) {
        EXPECT_EQ(result.losses, on_cpu.losses) << size << " ranks, " << dtype;
        EXPECT_EQ(result.epochs.back().test_loss, on_cpu.epochs.back().test_loss);
      }
      gpu.stumble(false);
    }
  }
}

TEST(Trainer, SettlesWhereItCanTrain) {
  if (nn::torch_has_cuda()) GTEST_SKIP() << "this LibTorch was built with CUDA";
  Config config = small_config();
  const DataSplit data = load(config.data.source, 40, 1);
  std::vector<Network> networks;
  for (int r = 0; r < 2; ++r) networks.push_back(make_network(config, data.image(), data.classes));
  tutti::testing::run_ranks(2, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    Network& network = networks[static_cast<std::size_t>(world.rank())];
    choose_device(network, config, world);
    EXPECT_TRUE(network.tensor_device->on_cpu());
    EXPECT_EQ(network.why_here, "rank 0 has no device: this LibTorch was built without CUDA");
    Config wanted = config;
    wanted.device = "cpu";
    choose_device(network, wanted, world);
    EXPECT_EQ(network.why_here, "");
    wanted.device = "cuda";
    EXPECT_THROW(choose_device(network, wanted, world), Error);
  });
}

TEST(Trainer, CallsHooksInOrderOnEveryRank) {
  Config config = small_config();
  config.epochs = 2;
  config.batch.global = 4;
  const DataSplit data = load(config.data.source, 5, 1);  // the second batch has one sample, so two ranks have none
  std::vector<std::vector<std::string>> calls(3);
  train_with(3, config, data, [&](int rank) {
    auto& log = calls[static_cast<std::size_t>(rank)];
    const auto note = [&log](const char* name) {
      return [&log, name](const Moment& m) { log.push_back(name + std::to_string(m.epoch) + std::to_string(m.step)); };
    };
    return Hooks{.on_start = note("start"),
                 .on_start_epoch = note("epoch"),
                 .on_sample = note("sample"),
                 .on_forward = note("forward"),
                 .on_backward = note("backward"),
                 .on_update = note("update"),
                 .on_validation = note("validation"),
                 .on_end_epoch = note("end_epoch"),
                 .on_end = note("end")};
  });
  EXPECT_THAT(calls[0], ElementsAre("start00", "epoch00", "sample00", "forward00", "backward00", "update00", "sample01",
                                    "forward01", "backward01", "update01", "validation02", "end_epoch02", "epoch12",
                                    "sample12", "forward12", "backward12", "update12", "sample13", "forward13",
                                    "backward13", "update13", "validation14", "end_epoch14", "end24"));
  EXPECT_EQ(calls[1], calls[0]);
  EXPECT_EQ(calls[2], calls[0]);
}

TEST(Trainer, EndsAfterTheStepsThatWereAskedFor) {
  Config config = small_config();
  config.steps = 7;
  const TrainResult result = train_with(2, config, load(config.data.source, 40, 1))[1];
  EXPECT_EQ(result.losses.size(), 7U);
  EXPECT_EQ(result.epochs.size(), 2U);
}

/// The same images, in which one quadrant is brightest; its number is the class.
std::shared_ptr<const Dataset> quadrants(const std::shared_ptr<const Dataset>& noise) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < noise->size(); ++i) {
    const Sample sample = noise->get(i);
    const auto quadrant = static_cast<std::size_t>(labels.emplace_back(static_cast<std::int64_t>(i % 4)));
    const auto image = sample["image"].as<std::uint8_t>();
    for (std::size_t p = 0; p < 64; ++p) {
      const bool inside = p / 32 == quadrant / 2 && p % 8 / 4 == quadrant % 2;
      pixels.push_back(static_cast<std::uint8_t>(inside ? image[p] | 0x80 : image[p] & 0x7f));
    }
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return std::make_shared<ArrayDataset>(
      Fields{{"image", Array(std::move(pixels), {count, 1, 8, 8})}, {"label", Array(std::move(labels))}});
}

TEST(Trainer, LearnsWhatCanBeLearnt) {
  Config config = small_config();
  config.model = {.name = "lenet", .options = {}};
  config.dtype = "float32";
  config.epochs = 12;
  config.data.shift = 0;
  // The class is the brightest quadrant: this is easy to learn, but only with correct gradients.
  DataSplit data = load("random:1x8x8", 200, 3);
  data.train = quadrants(data.train);
  data.test = quadrants(data.test);
  const TrainResult result = train_with(2, config, data)[0];
  EXPECT_GT(result.epochs.back().metric("accuracy"), 0.95);
  EXPECT_LT(result.epochs.back().train_loss, 0.5 * result.epochs.front().train_loss);
}

TEST(Trainer, AFailingHookEndsTheRun) {
  const Config config = small_config();
  EXPECT_THROW(
      train_with(1, config, load(config.data.source, 40, 1),
                 [](int) { return Hooks{.on_update = [](const Moment&) { throw std::runtime_error("stop"); }}; }),
      std::runtime_error);
}

/// A user's network with running statistics and a weight that is used in two places.
struct Normed : torch::nn::Module {
  Normed() {
    weight = register_parameter("weight", at::arange(360, at::kDouble).sin().mul(0.2).reshape({36, 10}));
    again = register_parameter("again", weight);
    norm = register_module("norm", torch::nn::BatchNorm1d(10));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = images.flatten(1);
    return at::relu(norm->forward(x.matmul(weight))).matmul(again.t()).matmul(weight);
  }
  at::Tensor weight, again;
  torch::nn::BatchNorm1d norm{nullptr};
};

Network normed() {
  const auto module = std::make_shared<Normed>();
  return {.module = module, .forward = [raw = module.get()](const at::Tensor& x) { return raw->forward(x); }};
}

/// Records each rank's outputs for the same images at the end of every epoch, in evaluation mode.
struct Opinions {
  explicit Opinions(std::size_t size) : networks(size), of(size) {
    for (Network& each : networks) each = normed();
  }
  Hooks hooks(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return {.on_end_epoch = [this, r](const Moment&) {
      const at::NoGradGuard no_grad;
      EXPECT_FALSE(networks[r].module->is_training());
      of[r].push_back(networks[r].forward(at::arange(180, at::kDouble).cos().reshape({5, 1, 6, 6})));
    }};
  }
  std::vector<Network> networks;
  std::vector<std::vector<at::Tensor>> of;
};

TEST(Buffers, AreAlikeWhereRanksEvaluateUnlessTheyAreLocal) {
  Config config = small_config();
  const DataSplit data = load(config.data.source, 100, 1);
  for (const char* policy : {"broadcast", "average", "local"}) {
    config.sync.buffers = policy;
    Opinions opinions(2);
    const auto results = train_these(opinions.networks, config, data, [&](int rank) { return opinions.hooks(rank); });
    EXPECT_EQ(results[0].losses.size(), 30U);
    ASSERT_EQ(opinions.of[0].size(), 3U);
    for (std::size_t e = 0; e < 3; ++e)
      EXPECT_EQ(opinions.of[0][e].equal(opinions.of[1][e]), policy != std::string("local"))
          << policy << ", epoch " << e;
  }
}

// With `broadcast`, the buffers are those of rank 0, which depend on rank 0's samples only, as with `local`.
TEST(Buffers, ThatAreBroadcastAreThoseOfRankZero) {
  Config config = small_config();
  config.epochs = 1;
  const DataSplit data = load(config.data.source, 100, 1);
  std::vector<at::Tensor> means;
  for (const char* policy : {"broadcast", "local"}) {
    config.sync.buffers = policy;
    Opinions opinions(2);
    train_these(opinions.networks, config, data);
    for (const Network& each : opinions.networks)
      means.push_back(static_cast<const Normed&>(*each.module).norm->running_mean.clone());
  }
  EXPECT_TRUE(means[0].equal(means[1]));
  EXPECT_TRUE(means[0].equal(means[2]));
  EXPECT_FALSE(means[0].equal(means[3]));
}

TEST(Buffers, AnUnknownPolicyIsRefused) {
  Config config = small_config();
  config.sync.buffers = "mean";
  try {
    train_these({normed()}, config, load(config.data.source, 40, 1));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("buffers=mean: expected broadcast"));
  }
}

TEST(Trainer, KeepsTheResultWhereReplicasDiffer) {
  const Config config = small_config();
  const DataSplit data = load(config.data.source, 100, 1);
  Opinions opinions(2);
  const auto spoil = [&](const Moment&) {
    const at::NoGradGuard no_grad;
    static_cast<Normed&>(*opinions.networks[1].module).weight.add_(1);
  };
  tutti::testing::run_ranks(2, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    const auto r = static_cast<std::size_t>(world.rank());
    try {
      train(config, world, opinions.networks[r], data, r == 1 ? Hooks{.on_end_epoch = spoil} : Hooks{});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ReplicaError& error) {
      EXPECT_EQ(error.code(), Code::mismatch);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("'weight' on rank 1 "));
      EXPECT_EQ(error.result.losses.size(), 30U);
      EXPECT_EQ(error.result.epochs.size(), 3U);
    }
  });
}

/// The network of normed() without its module: only tensors are known, as with a script. Each rank has its own values.
Network without_module(int rank) {
  Network network = normed();
  const auto tensors = std::make_shared<NetworkTensors>(tensors_of(network));
  const at::NoGradGuard no_grad;
  for (const auto* list : {&tensors->parameters, &tensors->buffers})
    for (const auto& [name, tensor] : *list) tensor.add_(rank);
  network.tensors = tensors;
  network.set_training = [module = std::move(network.module)](bool on) { module->train(on); };
  return network;
}

TEST(Trainer, TreatsANetworkWithoutAModuleAlike) {
  const Config config = small_config();
  const DataSplit data = load(config.data.source, 100, 1);
  const std::vector<TrainResult> wanted = train_these({normed(), normed()}, config, data);
  const auto spoiled = [](const Network& network) {
    return Hooks{.on_end_epoch = [tensors = network.tensors](const Moment&) { tensors->buffers[0].second.add_(1); }};
  };
  const std::vector<Network> networks{without_module(0), without_module(1)};
  const std::vector<TrainResult> results = train_these(networks, config, data);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(results[r].losses, wanted[r].losses);
    EXPECT_EQ(results[r].epochs.back().test_loss, wanted[r].epochs.back().test_loss);
  }
  EXPECT_TRUE(networks[0].tensors->buffers[0].second.equal(networks[1].tensors->buffers[0].second));
  EXPECT_THROW(
      train_these(networks, config, data, [&](int rank) { return rank == 1 ? spoiled(networks[1]) : Hooks{}; }),
      std::runtime_error);
}

TEST(Optimizer, StepsOnceForAWeightThatIsRegisteredTwice) {
  Config config = small_config();
  config.set("momentum=0");
  config.schedule.name = "constant";
  const Network network = normed();
  at::Tensor expected;
  const at::Tensor& weight = static_cast<const Normed&>(*network.module).weight;
  train_these({network}, config, load(config.data.source, 40, 1), [&](int) {
    return Hooks{
        .on_backward = [&](const Moment&) { expected = weight.detach() - 0.1 * weight.grad(); },
        .on_update = [&](const Moment&) { EXPECT_LE((weight.detach() - expected).abs().max().item<double>(), 1e-12); }};
  });
}

TEST(Networks, RefuseImagesThatAreTooSmall) {
  Config config = small_config();
  config.model.name = "lenet";
  EXPECT_THROW(make_network(config, {1, 2, 2}, 10), Error);
  config.model.name = "mlp";
  for (const char* bad : {"0", "12,", "a", "12;3", "-4"}) {
    config.model.options["hidden"] = bad;
    EXPECT_THROW(make_network(config, {1, 2, 2}, 10), Error) << bad;
  }
}

}  // namespace
}  // namespace tutti::engine
