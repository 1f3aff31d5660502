// Strategies compared with their formulas and with one another, resumed runs, and numbers of exchanges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/data/formats/source.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/strategy.hpp"
#include "tests/engine/runs.hpp"
#include "tests/support/fake_tensor_device.hpp"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Points near a line of slope 3. A model has two parameters, a and b.
DataSplit line_data(std::size_t samples) {
  const auto part = [](std::size_t count) {
    std::vector<double> x;
    std::vector<float> y;  // the type that training takes for targets
    for (std::size_t i = 0; i < count; ++i) {
      x.push_back(std::sin(static_cast<double>(i)));
      y.push_back(static_cast<float>(3 * x.back() + 0.5 + 0.1 * std::cos(7.0 * static_cast<double>(i))));
    }
    const auto rows = static_cast<std::int64_t>(count);
    return std::make_shared<ArrayDataset>(
        Fields{{"x", Array(std::move(x), {rows, 1})}, {"y", Array(std::move(y), {rows, 1})}});
  };
  DataSplit data;
  data.train = part(samples);
  data.test = part(8);
  data.inputs = {"x"};
  data.target = "y";
  return data;
}

/// y = a x + b, without a module of LibTorch.
Network line() {
  const auto number = [](double value) { return at::scalar_tensor(value, at::kDouble).set_requires_grad(true); };
  NetworkTensors tensors{{{"a", number(0.25)}, {"b", number(-1)}}, {}};
  const at::Tensor a = tensors.parameters[0].second, b = tensors.parameters[1].second;
  return {.module = nullptr,
          .forward = [a, b](const at::Tensor& x) { return x * a + b; },
          .tensors = std::make_shared<NetworkTensors>(std::move(tensors)),
          .set_training = [](bool) {}};
}

struct Line {
  double a = 0.25, b = -1;
};

Line values(const Network& network) {
  return {network.tensors->parameters[0].second.item<double>(), network.tensors->parameters[1].second.item<double>()};
}

Config line_config(const std::string& rule, int every) {
  Config config;
  for (const char* word : {"dtype=float64", "progress=off", "batch=12", "loss=mse", "optimizer=momentum", "lr=0.02",
                           "weight_decay=0.01", "schedule=constant", "epochs=2"})
    config.set(word);
  config.set("strategy", rule);
  config.set("strategy.every", std::to_string(every));
  return config;
}

/// Theano-MPI's strategies by their formulas, for all ranks at once. The gradient is the mean over a step's samples.
class Reference {
 public:
  Reference(const Config& config, int ranks, const Dataset& data)
      : cdd_(config.strategy.name == "cdd"),
        rate_(0.02 * (config.strategy.name == "avg" ? ranks : 1)),
        every_(static_cast<std::size_t>(std::stoi(config.strategy.options.at("every")))),
        data_(data),
        lines_(static_cast<std::size_t>(ranks)),
        velocities_(lines_.size(), Line{0, 0}) {}

  void step(const std::vector<std::vector<SampleId>>& samples) {
    std::size_t count = 0;
    for (const auto& each : samples) count += each.size();
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      Line slope{0, 0}, &line = lines_[r], &v = velocities_[r];
      for (const SampleId id : samples[r]) {
        const Sample sample = data_.get(id);
        const double x = sample["x"].as<double>()[0];
        const double error = 2 * (line.a * x + line.b - static_cast<double>(sample["y"].as<float>()[0]));
        const double weight = static_cast<double>(lines_.size()) / static_cast<double>(count);
        slope = {slope.a + weight * error * x, slope.b + weight * error};
      }
      v = {0.9 * v.a - rate_ * (slope.a + 0.01 * line.a), 0.9 * v.b - rate_ * (slope.b + 0.01 * line.b)};
      line = {line.a + v.a, line.b + v.b};
    }
    if (++since_ == every_) exchange();
  }
  /// W <- mean of all W, or for cdd: W <- W + sum of all changes of W.
  void exchange() {
    if (since_ == 0) return;
    since_ = 0;
    const double share = cdd_ ? 1 : 1 / static_cast<double>(lines_.size());
    Line next = common_;
    for (const Line& each : lines_)
      next = {next.a + share * (each.a - common_.a), next.b + share * (each.b - common_.b)};
    common_ = next;
    std::fill(lines_.begin(), lines_.end(), next);
  }
  const Line& common() const { return common_; }

 private:
  const bool cdd_;
  const double rate_;
  const std::size_t every_;
  const Dataset& data_;
  Line common_;
  std::vector<Line> lines_, velocities_;
  std::size_t since_ = 0;
};

// 26 samples make steps of 12, 12 and 2 samples; in the last one, two of four ranks have none.
TEST(Strategies, DoWhatTheirFormulasSay) {
  const DataSplit data = line_data(26);
  for (const auto& [rule, every, ranks] : {std::tuple{"gradients", 1, 1},
                                           {"gradients", 1, 3},
                                           {"parameters", 1, 2},
                                           {"parameters", 2, 3},
                                           {"parameters", 5, 4},
                                           {"avg", 1, 3},
                                           {"avg", 2, 2},
                                           {"cdd", 1, 4},
                                           {"cdd", 2, 3},
                                           {"cdd", 1, 1}}) {
    const Config config = line_config(rule, every);
    std::vector<Network> networks(static_cast<std::size_t>(ranks));
    for (Network& each : networks) each = line();
    std::vector<std::vector<std::vector<SampleId>>> seen(6, std::vector<std::vector<SampleId>>(networks.size()));
    std::vector<std::vector<Line>> found(2, std::vector<Line>(networks.size()));
    const auto results = train_these(networks, config, data, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return Hooks{.on_sample = [&, r](const Moment& now) { seen[now.step][r] = now.batch->ids; },
                   .on_end_epoch = [&, r](const Moment& now) { found[now.epoch][r] = values(networks[r]); }};
    });
    Reference reference(config, ranks, *data.train);
    for (std::size_t step = 0; step < 6; ++step) {
      reference.step(seen[step]);
      if (step % 3 < 2) continue;
      reference.exchange();
      for (const Line& each : found[step / 3]) {
        EXPECT_NEAR(each.a, reference.common().a, 1e-12) << rule << " every " << every;
        EXPECT_NEAR(each.b, reference.common().b, 1e-12) << rule << " every " << every;
        EXPECT_EQ(each.a, found[step / 3][0].a);  // bitwise equal after settle()
        EXPECT_EQ(each.b, found[step / 3][0].b);
      }
    }
    EXPECT_EQ(results[0].exchanged.exchanges, 2U * static_cast<std::size_t>((3 + every - 1) / every));
    const std::size_t elements = rule == std::string("gradients") ? 4 : 2;  // gradients have a flag for each parameter
    EXPECT_EQ(results[0].exchanged.bytes, results[0].exchanged.exchanges * elements * 8);
  }
}

/// 50 steps. The last step of an epoch is smaller: on four ranks, one rank has no sample in it.
Config mlp_config(const std::string& rule) {
  Config config;
  for (const char* word : {"model=mlp", "hidden=12", "data=random:1x6x6", "dtype=float64", "progress=off", "epochs=5",
                           "batch=10", "optimizer=momentum", "lr=0.02", "sync.first_bucket_bytes=128"})
    config.set(word);
  config.steps = 50;
  config.set("strategy", rule);
  return config;
}

TEST(Strategies, ParametersAveragedInEveryStepAreGradientsAveraged) {
  const DataSplit data = load("random:1x6x6", 103, 1);
  for (const int ranks : {2, 4}) {
    const Trained gradients = run_on(ranks, mlp_config("gradients"), data);
    const Trained parameters = run_on(ranks, mlp_config("parameters"), data);
    EXPECT_LE(largest_difference(gradients.parameters, parameters.parameters), 1e-10) << ranks;
    EXPECT_LE(largest_difference(gradients.result.losses, parameters.result.losses), 1e-10) << ranks;
  }
}

TEST(Strategies, LocalStepsMakeReplicasDifferUntilTheySettle) {
  const DataSplit data = load("random:1x6x6", 100, 1);
  for (const char* rule : {"parameters", "avg", "cdd"}) {
    Config config = mlp_config(rule);
    config.set("strategy.every=3");  // an epoch has ten steps
    config.steps = 10;
    std::vector<Network> networks = networks_for(2, config, data);
    std::vector<std::vector<at::Tensor>> between(2), after(2);
    train_these(networks, config, data, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return Hooks{.on_update =
                       [&, r](const Moment& now) {
                         if (now.step == 1) between[r] = copies_of(networks[r]);
                       },
                   .on_end_epoch = [&, r](const Moment&) { after[r] = copies_of(networks[r]); }};
    });
    EXPECT_GT(largest_difference(between[0], between[1]), 1e-6) << rule;
    EXPECT_TRUE(same_bits(after[0], after[1])) << rule;
  }
}

// With parameters on a device the results are bitwise the same.
TEST(Strategies, OnADeviceGiveTheSameBits) {
  tutti::testing::FakeAccelerator& gpu = tutti::testing::use_fake_accelerator();
  const DataSplit data = load("random:1x6x6", 40, 1);
  for (const char* rule : {"parameters", "cdd", "membership", "diloco", "eager-diloco", "noloco", "gosgd"}) {
    Config config = mlp_config("gradients");
    config.set((rule == std::string("membership") ? "deterministic=" : "strategy=") + std::string(rule));
    if (axes_of(config).every > 4) config.set("strategy.every=4");
    if (rule == std::string("gosgd")) config.set("strategy.probability=0.5");
    const Trained on_cpu = run_on(3, config, data);
    std::vector<Network> networks = networks_for(3, config, data);
    for (int r = 0; r < 3; ++r)
      networks[static_cast<std::size_t>(r)].tensor_device = tutti::testing::fake_tensor_device(gpu, r % 2);
    gpu.stumble(true);
    const auto results = train_these(networks, config, data);
    gpu.stumble(false);
    for (const TrainResult& result : results) EXPECT_EQ(result.losses, on_cpu.result.losses) << rule;
    for (const Network& each : networks) EXPECT_TRUE(same_bits(copies_of(each), on_cpu.parameters)) << rule;
  }
}

class ResumedStrategies : public RunFolderTest {};

TEST_F(ResumedStrategies, ContinueWithTheSameBits) {
  const DataSplit data = load("random:1x6x6", 103, 1);
  for (const auto& [rule, every, ranks] :
       {std::tuple{"gradients", 1, 2}, {"parameters", 3, 3}, {"avg", 1, 2}, {"cdd", 2, 2}}) {
    Config config = mlp_config(rule);
    config.set("strategy.every", std::to_string(every));
    config.steps = 22;
    config.checkpoint.every_steps = 4;
    config.run = folder("whole");
    const Trained whole = run_on(ranks, config, data);
    config.run = folder("parted");
    EXPECT_THROW(run_on(ranks, config, data, interrupt_after(9)), std::runtime_error);
    config.checkpoint.resume = "true";
    const Trained parted = run_on(ranks, config, data);
    EXPECT_EQ(parted.result.losses, whole.result.losses) << rule;
    EXPECT_TRUE(same_bits(parted.parameters, whole.parameters)) << rule;
    EXPECT_EQ(parted.result.epochs.back().test_loss, whole.result.epochs.back().test_loss) << rule;
    clear();
  }
}

// Each rank has its own momentum, and saves it in its own file.
TEST_F(ResumedStrategies, KeepWhatEveryRankRemembers) {
  Config config = mlp_config("avg");
  config.steps = 4;
  config.checkpoint.every_steps = 4;
  config.run = folder("run");
  run_on(3, config, load("random:1x6x6", 103, 1));
  std::vector<Fields> kept;
  for (const char* file : {"optimizer", "optimizer-1", "optimizer-2"})
    kept.push_back(read_arrays(folder("run") + "/checkpoints/last/" + file + ".safetensors"));
  const auto momentum = [&](std::size_t rank) {
    const auto values = kept[rank]["fc1.weight.momentum"].as<double>();
    return std::vector<double>(values.begin(), values.end());
  };
  EXPECT_NE(momentum(0), momentum(1));
  EXPECT_NE(momentum(1), momentum(2));
  config.set("sync.rule=cdd");
  config.checkpoint.resume = "true";
  config.steps = 8;
  EXPECT_THAT(failure([&] { run_on(3, config, load("random:1x6x6", 103, 1)); }), HasSubstr("avg every 1, not cdd"));
}

/// A user's strategy, which exchanges nothing. It records its calls, and counts its steps.
class Scripted final : public Strategy {
 public:
  Scripted(int rank, std::vector<std::string>& log)
      : Strategy({.name = "scripted", .equal_when_settled = false, .alike_when_settled = false}),
        log_(log),
        steps_(at::scalar_tensor(100 * rank, at::kLong)) {}

  void begin_step(const StepShare& share) override {
    share_ = share;
    note("step " + std::to_string(share.step) + ": " + std::to_string(share.count) + " of " +
         std::to_string(share.global_count) + " in " + std::to_string(share.pieces));
  }
  double begin_piece(std::size_t piece, std::size_t count) override {
    note("piece " + std::to_string(piece) + " of " + std::to_string(count));
    return static_cast<double>(count) / static_cast<double>(share_.count);
  }
  void end_piece(std::size_t piece) override { note("end " + std::to_string(piece)); }
  void end_backward() override { note("backward"); }
  void end_step() override {
    note("update");
    steps_.add_(1);
  }
  void settle() override { note("settle"); }
  std::vector<nn::NamedTensor> state() const override { return {{"steps", steps_}}; }
  void load_state(const std::vector<nn::NamedTensor>& state) override {
    note("goes on from " + std::to_string(state.at(0).second.item<std::int64_t>()));
    steps_.copy_(state.at(0).second);
  }

 private:
  void note(const std::string& what) { log_.push_back(what); }
  std::vector<std::string>& log_;
  at::Tensor steps_;
  StepShare share_;
};

/// The recorded calls of two ranks' strategies.
std::vector<std::vector<std::string>> scripted(const Config& config, std::size_t interrupt = 1000) {
  std::vector<std::vector<std::string>> logs(2);
  const Hooks hooks = interrupt_after(interrupt)(0);
  tutti::testing::run_ranks(2, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    Task task{.network = line(), .data = line_data(14)};
    task.strategy = [&](const Config&, const Replica& replica) {
      const int rank = replica.world.rank();
      return std::make_unique<Scripted>(rank, logs[static_cast<std::size_t>(rank)]);
    };
    Trainer(config, world, std::move(task), hooks).run();
  });
  return logs;
}

// 14 samples make a step of 12, and one of 2 in which rank 1 has none.
TEST_F(ResumedStrategies, OfOnesOwnAreCalledInOrder) {
  Config config = line_config("gradients", 1);
  config.epochs = 1;
  config.batch.micro = 3;
  const auto logs = scripted(config);
  EXPECT_THAT(logs[0], ElementsAre("step 0: 6 of 12 in 2", "piece 0 of 3", "end 0", "piece 1 of 3", "end 1", "backward",
                                   "update", "step 1: 2 of 2 in 2", "piece 0 of 1", "end 0", "piece 1 of 1", "end 1",
                                   "backward", "update", "settle", "settle"));
  EXPECT_THAT(logs[1], ElementsAre("step 0: 6 of 12 in 2", "piece 0 of 3", "end 0", "piece 1 of 3", "end 1", "backward",
                                   "update", "step 1: 0 of 2 in 0", "backward", "update", "settle", "settle"));
}

TEST_F(ResumedStrategies, OfOnesOwnKeepAStateOnEveryRank) {
  Config config = line_config("gradients", 1);
  config.checkpoint.every_steps = 1;
  config.run = folder("run");
  EXPECT_THROW(scripted(config, 3), std::runtime_error);
  config.checkpoint.resume = "true";
  const auto logs = scripted(config);
  EXPECT_EQ(logs[0].front(), "goes on from 3");
  EXPECT_EQ(logs[1].front(), "goes on from 103");
}

}  // namespace
}  // namespace tutti::engine
