// Training that is bitwise the same for any number of ranks, also if that changes during the run. Ranks are processes,
// because LibTorch has one random generator per process, from which dropout draws. The test's own process never trains,
// because LibTorch's autograd does not survive a fork.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>

#include "engine/data/formats/source.hpp"
#include "engine/data/random.hpp"
#include "engine/data/tensors.hpp"
#include "engine/models/model.hpp"
#include "engine/trainer.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/worlds.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* layers = R"(
- conv: {filters: 6, kernel: 3, padding: same}
- batchnorm
- relu
- maxpool: 2
- dropout: 0.3
- flatten
- linear: 16
- relu
- dropout: 0.5
- linear: classes
)";

std::string hex(double value) {
  char text[32];
  std::snprintf(text, sizeof text, " %016llx", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
  return text;
}

/// All results of a run as a text that shows every bit.
std::string bits_of(const TrainResult& result, const Network& network) {
  std::string text = "losses";
  for (const double loss : result.losses) text += hex(loss);
  for (const EpochResult& epoch : result.epochs) {
    text += "\nepoch" + hex(epoch.train_loss) + hex(epoch.test_loss);
    for (const auto& [name, value] : epoch.metrics) text += hex(value);
  }
  const NetworkTensors tensors = tensors_of(network);
  for (const auto* list : {&tensors.parameters, &tensors.buffers})
    for (const auto& [name, tensor] : *list) {
      const Array array = to_array(tensor);
      std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
      for (const std::byte byte : array.bytes()) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
      text += "\n" + name + hex(std::bit_cast<double>(hash));
    }
  return text;
}

class Membership : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(folder("net.yaml")) << layers; }

  std::string folder(const std::string& name) const { return temporary_.path() + "/" + name; }

  /// 45 samples make five steps of 8 samples and one of 5. Each step is summed in 8 parts (grains).
  Config config() const {
    Config config;
    for (const char* word : {"data=random:1x6x6", "progress=off", "epochs=2", "batch=8", "shift=1", "optimizer=adam",
                             "lr=0.01", "clip=1", "deterministic=membership", "batch.grains=8"})
      config.set(word);
    config.model.name = folder("net.yaml");
    return config;
  }

  /// Trains, and returns the result, which is the same on all ranks.
  std::string train_on(int ranks, const Config& config, std::size_t interrupt = 1000) {
    const std::string store = folder("store-" + std::to_string(runs_++));
    tutti::testing::Fleet fleet(ranks, [&](int rank) {
      Bootstrap mine;
      mine.rank = mine.local_rank = rank;
      mine.size = mine.local_size = ranks;
      mine.store = make_file_store(store);
      mine.launcher = "test";
      mine.settings = tutti::testing::test_settings("shm");
      mine.settings.job = store;
      mine.settings.secret = "test";
      Communicator world = Communicator::connect(mine);
      const DataSplit data = load(config.data.source, 45, 1);
      const Network network = make_network(config, data);
      const auto stop = [&](const Moment& now) {
        if (now.step == interrupt) throw std::runtime_error("interrupted");
      };
      return bits_of(train(config, world, network, data, {.on_sample = stop}), network);
    });
    const std::string first = fleet.answer(0);
    for (int rank = 1; rank < ranks; ++rank) EXPECT_EQ(fleet.answer(rank), first) << ranks << " ranks";
    return first;
  }

 private:
  const tutti::testing::TemporaryFolder temporary_;
  int runs_ = 0;
};

TEST_F(Membership, NoBitDependsOnTheNumberOfRanks) {
  for (const char* dtype : {"float32", "float64"}) {
    Config run = config();
    run.dtype = dtype;
    const std::string alone = train_on(1, run);
    EXPECT_THAT(alone, StartsWith("losses "));
    for (const int ranks : {2, 3, 4}) EXPECT_EQ(train_on(ranks, run), alone) << ranks << " ranks, " << dtype;
  }
}

TEST_F(Membership, ARunThatIsResumedOnOtherRanksIsTheSame) {
  Config run = config();
  run.checkpoint.every_steps = 4;
  run.run = folder("whole");
  const std::string whole = train_on(1, run);
  run.run = folder("parted");
  EXPECT_THAT(train_on(2, run, 5), HasSubstr("interrupted"));
  run.checkpoint.resume = "true";
  EXPECT_THAT(train_on(3, run, 9), HasSubstr("interrupted"));
  EXPECT_EQ(train_on(4, run), whole);
}

// In each history the run is interrupted a few times, and resumed each time with a random number of ranks.
TEST_F(Membership, NoHistoryOfRanksChangesABit) {
  Config run = config();
  run.checkpoint.every_steps = 1;
  run.run = folder("whole");
  const std::string whole = train_on(1, run);
  for (std::uint64_t history = 1; history <= 6; ++history) {
    Random draws(history);
    run.run = folder("history-" + std::to_string(history));
    run.checkpoint.resume = "false";
    for (std::size_t stop = 1 + draws.below(4); stop < 12; stop += 1 + draws.below(4)) {
      EXPECT_THAT(train_on(1 + static_cast<int>(draws.below(8)), run, stop), HasSubstr("interrupted"));
      run.checkpoint.resume = "true";
    }
    EXPECT_EQ(train_on(1 + static_cast<int>(draws.below(8)), run), whole) << "history " << history;
  }
}

TEST_F(Membership, OtherGrainsAreAnotherRun) {
  Config run = config();
  const std::string eight = train_on(1, run);
  run.set("batch.grains=4");
  EXPECT_NE(train_on(2, run), eight);
  run.set("batch.grains=2");
  EXPECT_THAT(train_on(3, run), HasSubstr("2 grains: expected from 3"));
}

}  // namespace
}  // namespace tutti::engine
