// Presets: which of them are equivalent, their costs, and resuming from their states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "engine/config/tables.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/explain.hpp"
#include "engine/strategies/strategy.hpp"
#include "tests/engine/play.hpp"
#include "tests/engine/runs.hpp"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// Three parameters in two blocks, with gradients that depend on rank and step.
Play waves(const Words& words, int ranks = 3, std::size_t steps = 12) {
  return {.ranks = ranks,
          .words = words,
          .begin = {{"a.weight", at::ones({5, 6}, at::kDouble)},
                    {"a.bias", at::ones({7}, at::kDouble)},
                    {"b.weight", at::ones({4, 3}, at::kDouble)}},
          .steps = steps,
          .lr = 0.1,
          .gradient = [](int rank, std::size_t step, const std::string& name, const at::Tensor& x) {
            const double shift = 0.7 * rank + 1.3 * static_cast<double>(step) + static_cast<double>(name.size());
            return x * .3 + (at::arange(x.numel(), at::kDouble) + shift).sin().view(x.sizes());
          }};
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The largest difference between the parameters of two strategies after every `every`-th step.
double apart(const Words& one, const Words& other, std::size_t every = 1, int ranks = 3) {
  const auto a = played(waves(one, ranks)), b = played(waves(other, ranks));
  double most = 0;
  for (std::size_t rank = 0; rank < a.size(); ++rank)
    for (std::size_t step = every - 1; step < a[rank].after.size(); step += every)
      for (std::size_t i = 0; i < a[rank].after[step].size(); ++i)
        most = std::max(most, std::abs(a[rank].after[step][i] - b[rank].after[step][i]));
  return most;
}

const Words local_diloco{"strategy=diloco", "strategy.outer=sgd", "strategy.outer_momentum=0"};

TEST(Lattice, OuterStepsOfRateOneWithoutMomentumChangeNothing) {
  EXPECT_LE(apart(with(local_diloco, {"strategy.every=1", "strategy.outer_lr=1"}), {"strategy=bsp"}), 1e-12);
  EXPECT_LE(apart(with(local_diloco, {"strategy.every=4", "strategy.outer_lr=1"}),
                  {"strategy=local-sgd", "strategy.every=4"}),
            1e-12);
  EXPECT_GT(apart({"strategy=diloco", "strategy.every=4"}, {"strategy=local-sgd", "strategy.every=4"}), 1e-3);
}

TEST(Lattice, StreamingInOnePieceIsDiLoCo) {
  const Words streaming{"strategy=streaming-diloco", "strategy.every=4", "strategy.fragments=1",
                        "strategy.codec=none",       "strategy.delay=0", "strategy.alpha=0"};
  EXPECT_EQ(apart(streaming, {"strategy=diloco", "strategy.every=4"}), 0);
}

TEST(Lattice, StreamingThatKeepsItsOwnIsWithoutCommunication) {
  const Words streaming{"strategy=streaming-diloco", "strategy.every=4", "strategy.fragments=2", "strategy.delay=1",
                        "strategy.alpha=1"};
  EXPECT_LE(apart(streaming, {"strategy=local-sgd", "strategy.every=1000"}), 1e-12);
}

TEST(Lattice, NoLoCoOfAllRanksIsDiLoCoWithTheHeavyBall) {
  EXPECT_LE(apart({"strategy=noloco", "strategy.every=3", "strategy.group=3", "strategy.consensus=0"},
                  {"strategy=diloco", "strategy.every=3", "strategy.outer=heavyball", "strategy.outer_momentum=0.5"}),
            1e-12);
}

TEST(Lattice, SparseLoCoOfEverythingIsLocalSgdByTheRate) {
  EXPECT_LE(apart({"strategy=sparseloco", "strategy.every=3", "strategy.codec=top_k:64/64", "strategy.feedback=0"},
                  with(local_diloco, {"strategy.every=3", "strategy.outer_lr=0.7"})),
            1e-12);
}

TEST(Lattice, SpartaOfEverythingIsLocalSgd) {
  EXPECT_LE(apart({"strategy=sparta", "strategy.every=3", "strategy.codec=mask:1"},
                  {"strategy=local-sgd", "strategy.every=3"}),
            1e-12);
}

// With sparta=1 all parameters are averaged in each step, so only the outer step is left to a sync; with 0 it is
// DiLoCo.
TEST(Lattice, DiLoCoWithSpartaIsBoth) {
  const Words diloco{"strategy=diloco", "strategy.every=3"};
  EXPECT_EQ(apart(with(diloco, {"strategy.sparta=0"}), diloco), 0);
  EXPECT_LE(apart(with(local_diloco, {"strategy.every=3", "strategy.outer_lr=1", "strategy.sparta=1"}),
                  {"strategy=local-sgd", "strategy.every=1"}),
            1e-12);
  EXPECT_GT(apart(with(diloco, {"strategy.sparta=0.3"}), diloco), 1e-4);
}

TEST(Lattice, PostLocalSgdIsBspAndThenLocalSgd) {
  EXPECT_EQ(apart({"strategy=post-local-sgd", "strategy.dense_steps=100"}, {"strategy=bsp"}), 0);
  EXPECT_LE(apart({"strategy=post-local-sgd", "strategy.dense_steps=0", "strategy.every=3"},
                  {"strategy=local-sgd", "strategy.every=3"}),
            0);
  const auto mixed = played(waves({"strategy=post-local-sgd", "strategy.dense_steps=6", "strategy.every=3"}));
  const auto dense = played(waves({"strategy=bsp"}));
  EXPECT_EQ(mixed[1].after[5], dense[1].after[5]);
  EXPECT_NE(mixed[1].after[6], mixed[0].after[6]);
  EXPECT_EQ(mixed[1].after[8], mixed[0].after[8]);
  EXPECT_EQ(mixed[0].stats.exchanges, 6U + 2U);
}

TEST(Lattice, DsgdIsBspInOnePiece) {
  EXPECT_LE(apart({"strategy=dsgd"}, {"strategy=bsp", "sync.bucket_bytes=64", "sync.first_bucket_bytes=64"}), 1e-12);
}

TEST(Lattice, PowerSgdOfFullRankIsBsp) {
  EXPECT_LE(apart({"strategy=bsp", "strategy.codec=power_sgd:6", "strategy.least_saving=0"}, {"strategy=bsp"}), 1e-12);
}

TEST(Lattice, DelayedNesterovOfOneIsNesterov) {
  EXPECT_LE(apart({"strategy=diloco", "strategy.every=3", "strategy.outer=delayed-nesterov", "strategy.outer_every=1"},
                  {"strategy=diloco", "strategy.every=3"}),
            1e-12);
}

TEST(Lattice, OneRankAloneIsAnOuterStepOfItsOwn) {  // as in SNOO and Lookahead
  const auto alone = played(waves({"strategy=diloco", "strategy.every=3"}, 1));
  const auto eager = played(waves({"strategy=noloco", "strategy.every=3", "strategy.consensus=0"}, 1));
  const Words ball{"strategy=diloco", "strategy.every=3", "strategy.outer=heavyball", "strategy.outer_momentum=0.5"};
  expect_near(eager[0].after[11], played(waves(ball, 1))[0].after[11]);
  EXPECT_NE(alone[0].after[11], eager[0].after[11]);
}

TEST(Parameters, OfPairsThatAreElasticMeetInTheMiddle) {
  EXPECT_LE(apart({"strategy=local-sgd", "strategy.how=pairs", "strategy.every=3", "strategy.judged=mean"},
                  {"strategy=local-sgd", "strategy.every=3"}, 1, 2),
            1e-12);
  EXPECT_LE(apart({"strategy=local-sgd", "strategy.how=pairs", "strategy.every=3", "strategy.judged=mean",
                   "strategy.merge=elastic", "strategy.elastic=0.5"},
                  {"strategy=local-sgd", "strategy.every=3"}, 1, 2),
            1e-12);
}

TEST(InnerState, IsKeptAveragedOrForgotten) {
  const auto memory = [](const std::string& inner) {
    Play play = waves({"strategy=local-sgd", "strategy.every=4", "strategy.inner=" + inner}, 2, 5);
    play.optimizer = "momentum";
    return played(play);
  };
  const auto kept = memory("keep"), averaged = memory("average"), forgotten = memory("reset");
  EXPECT_EQ(kept[0].after[3], averaged[0].after[3]);
  EXPECT_EQ(kept[0].after[3], forgotten[0].after[3]);
  EXPECT_NE(kept[0].after[4], averaged[0].after[4]);
  // averaged momentum is equal on both ranks, so their next steps differ by the gradients alone
  const std::size_t size = kept[0].after[4].size();
  for (std::size_t i = 0; i < size; ++i)
    EXPECT_NEAR(averaged[0].after[4][i] - averaged[1].after[4][i], forgotten[0].after[4][i] - forgotten[1].after[4][i],
                1e-12);
  EXPECT_EQ(averaged[0].stats.bytes, 2 * kept[0].stats.bytes);
}

// Every parameter is exchanged, also if the sizes do not divide evenly into buckets or fragments.
TEST(Audit, EveryParameterIsExchanged) {
  for (const std::string strategy : {"bsp", "local-sgd", "diloco", "streaming-diloco"}) {
    Play play = waves({"strategy=" + strategy, "sync.bucket_bytes=80", "sync.first_bucket_bytes=80"}, 3, 12);
    if (strategy != "bsp") play.words.emplace_back("strategy.every=4");
    if (strategy == "streaming-diloco")
      play.words.insert(play.words.end(), {"strategy.codec=none", "strategy.delay=0", "strategy.alpha=0"});
    play.begin.clear();
    for (const auto& [name, size] : {std::pair{"a.w", 6}, {"b.w", 6}, {"c.w", 12}, {"d.w", 1}, {"e.w", 25}})
      play.begin.emplace_back(name, at::ones({size}, at::kDouble));
    const auto ranks = played(play);
    if (strategy != "streaming-diloco") {
      EXPECT_EQ(ranks[0].after.back(), ranks[2].after.back()) << strategy;
    }
    EXPECT_EQ(ranks[0].settled, ranks[2].settled) << strategy;
    for (const double value : ranks[0].settled) EXPECT_NE(value, 1) << strategy;  // every value was updated
  }
}

TEST(Buffers, BecomeTheirMeanAtASync) {
  for (const char* strategy : {"local-sgd", "diloco", "streaming-diloco"}) {
    Play play = waves({"strategy=" + std::string(strategy), "strategy.every=4"}, 3, 4);
    if (strategy == std::string("streaming-diloco"))
      play.words.insert(play.words.end(), {"strategy.fragments=2", "strategy.delay=1"});
    play.buffers = {{"norm.running_mean", vector_of({1, 2})}};
    for (const Played& rank : played(play)) expect_near(rank.buffers, {2, 4});
    play.words.emplace_back("sync.buffers=local");
    EXPECT_EQ(played(play)[2].buffers, (Values{3, 6})) << strategy;
  }
}

/// The presets with the settings of the tests: they exchange within twelve steps, and codecs do not depend on buckets.
std::map<std::string, Words> all_presets() {
  return {{"bsp", {}},
          {"dsgd", {}},
          {"local-sgd", {"strategy.every=4"}},
          {"post-local-sgd", {"strategy.every=4", "strategy.dense_steps=0"}},
          {"diloco", {"strategy.every=4"}},
          {"streaming-diloco", {"strategy.every=6", "strategy.fragments=2", "strategy.delay=1"}},
          {"eager-diloco", {"strategy.every=4"}},
          {"noloco", {"strategy.every=4"}},
          {"sparseloco", {"strategy.every=4"}},
          {"sparta", {"strategy.codec=mask:0.142857"}},
          {"gosgd", {"strategy.probability=0.5"}},
          {"gradients", {}},
          {"parameters", {}},
          {"avg", {"strategy.every=2"}},
          {"cdd", {"strategy.every=2"}}};
}

TEST(Presets, GiveAsManyBytesAsTheirFormulas) {
  std::map<std::string, Words> presets = all_presets();
  for (const ChoiceInfo& each : strategy_table())
    EXPECT_TRUE(presets.contains(std::string(each.name)) ||
                axes_of(play_config({"strategy=" + std::string(each.name)})).how == Axes::How::server)
        << each.name;
  for (const char* codec : {"f16", "bf16", "int8:8", "e3m0:8", "2bit:8", "sign:8", "top_k:0.2", "top_k:2/8", "dct:2/8",
                            "mask:0.142857", "power_sgd:1"}) {
    presets.emplace("bsp " + std::string(codec),
                    Words{"strategy.codec=" + std::string(codec), "strategy.reorder=false"});
    presets.emplace("diloco " + std::string(codec), Words{"strategy.codec=" + std::string(codec), "strategy.every=3"});
  }
  presets.emplace("diloco with sparta", Words{"strategy.sparta=0.142857", "strategy.every=3"});
  for (const char* merge : {"tokens", "radial", "vote"})
    presets.emplace("diloco " + std::string(merge), Words{"strategy.merge=" + std::string(merge), "strategy.every=3"});
  for (const auto& [name, words] : presets) {
    const Words all = with({"strategy=" + name.substr(0, name.find(' '))}, words);
    const Play play = waves(all, 4);
    const Config config = play_config(all);
    const Axes axes = axes_of(config);
    std::vector<nn::NamedTensor> parameters = play.begin;
    for (auto& [key, tensor] : parameters) tensor = tensor.clone().set_requires_grad(true);
    const StrategyCost cost = strategy_cost(config, parameters, {}, 4);
    const auto ranks = played(play);
    std::uint64_t given = 0;
    double rounds = 0;
    for (const Played& rank : ranks) {
      given += rank.stats.bytes;
      rounds += static_cast<double>(rank.stats.exchanges) / static_cast<double>(axes.fragments);
    }
    EXPECT_EQ(given, static_cast<std::uint64_t>(std::llround(rounds * static_cast<double>(cost.round_bytes)))) << name;
    EXPECT_GT(rounds, 0) << name;
    EXPECT_GE(cost.round_bytes, cost.peak_bytes) << name;
    if (axes.merge != Axes::Merge::gossip) {
      EXPECT_EQ(rounds, 4.0 * static_cast<double>(12 / axes.every)) << name;
    }
  }
}

TEST(Presets, StreamingPeaksAtAPartOfDiLoCo) {
  const auto cost = [](const Words& words) {
    const Play play = waves(words, 4);
    std::vector<nn::NamedTensor> parameters;
    for (int block = 0; block < 8; ++block)
      parameters.emplace_back("blocks." + std::to_string(block) + ".weight",
                              at::ones({64, 64}).set_requires_grad(true));
    return strategy_cost(play_config(words), parameters, {}, 4);
  };
  const StrategyCost whole = cost({"strategy=diloco"}),
                     parts = cost({"strategy=streaming-diloco", "strategy.codec=none"});
  EXPECT_EQ(4 * parts.peak_bytes, whole.peak_bytes);
  EXPECT_EQ(parts.round_bytes, whole.round_bytes);
  EXPECT_LT(6 * cost({"strategy=streaming-diloco"}).round_bytes, 8 * whole.round_bytes);
  EXPECT_LT(12 * cost({"strategy=sparseloco"}).round_bytes, whole.round_bytes);
}

// A hook sets the outer rate during the run.
TEST(Numbers, AreLive) {
  Config config;
  for (const char* word :
       {"model=mlp", "hidden=12", "data=random:1x6x6", "dtype=float64", "progress=off", "epochs=1", "batch=10",
        "optimizer=momentum", "lr=0.02", "steps=8", "strategy=diloco", "strategy.every=4"})
    config.set(word);
  const DataSplit data = load("random:1x6x6", 103, 1);
  const auto settled = [&](double rate) {
    return run_on(2, config, data,
                  [rate](int) {
                    return Hooks{.on_update = [rate](const Moment& now) {
                      if (now.step == 4) now.trainer.strategy().set("outer_lr", rate);
                    }};
                  })
        .parameters;
  };
  EXPECT_TRUE(same_bits(settled(.7), run_on(2, config, data).parameters));
  EXPECT_FALSE(same_bits(settled(.35), settled(.7)));
  Axes axes;
  axes.set("alpha", .5);
  EXPECT_EQ(axes.alpha, .5);
  EXPECT_THROW(axes.set("alpha", 2), Error);
  EXPECT_THROW(axes.set("every", 2), Error);
}

TEST(Explanation, HasTheAxesTheBytesAndTheMemory) {
  const Play play = waves({"strategy=diloco"}, 4);
  std::vector<nn::NamedTensor> parameters = play.begin;
  for (auto& [name, tensor] : parameters) tensor = tensor.clone().set_requires_grad(true);
  const std::string text = explain_strategy(play_config({"strategy=DiLoCo"}), parameters, {}, 4);
  for (const char* line :
       {"strategy    diloco: ", "when      every 64", "what      deltas", "codec     none", "how       allreduce",
        "merge     mean", "outer     nesterov, rate 0.7, momentum 0.9", "apply     blocking", "members   all",
        "each of 4 ranks gives 392 B a round", "memory      1.568 kB"})
    EXPECT_THAT(text, HasSubstr(line));
}

/// The values of a tensor of the state, or none.
Values kept(const Played& rank, const std::string& name) {
  for (const auto& [key, tensor] : rank.state)
    if (key == name) return values_of(tensor);
  return {};
}

TEST(Gossip, WeightsAddUpToOneAndTheWeightedMeanIsConserved) {
  Play play = waves({"strategy=gosgd", "strategy.probability=0.6"}, 4, 50);
  play.gradient = [](int, std::size_t, const std::string&, const at::Tensor& x) { return at::zeros_like(x); };
  play.own = [](int rank, const std::string&, const at::Tensor& value) { return value * (rank + 1.0); };
  const auto ranks = played(play);
  const Values weights = kept(ranks[0], "strategy.weights");
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
  for (const Played& rank : ranks) {
    EXPECT_EQ(kept(rank, "strategy.weights"), weights);
    expect_near(rank.settled, Values(rank.settled.size(), 2.5), 1e-12);
  }
  EXPECT_LT(std::abs(ranks[0].after[49][0] - ranks[3].after[49][0]), 0.5);  // the ranks have come closer
}

TEST(Gossip, TenThousandRoundsInWhichAllPushDoNotStop) {
  Play play = waves({"strategy=gosgd", "strategy.probability=1"}, 4, 10000);
  play.begin = {{"x", at::ones({2}, at::kDouble)}};
  play.gradient = [](int, std::size_t, const std::string&, const at::Tensor& x) { return at::zeros_like(x); };
  const auto ranks = played(play);
  const Values weights = kept(ranks[0], "strategy.weights");
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
  for (const Played& rank : ranks) EXPECT_EQ(rank.stats.exchanges, 10000U);
}

// Validation, for which settle() replaces the parameters, does not change the training.
TEST(Judging, ChangesNothingOfTheTraining) {
  for (const auto& [name, words] : all_presets()) {
    const Words all = with({"strategy=" + name}, words);
    if (axes_of(play_config(all)).judged == Axes::Judged::exchange) continue;
    if (name == "gosgd") continue;  // settle() merges the pushes in flight
    Config config;
    for (const char* word : {"model=mlp", "hidden=12", "data=random:1x6x6", "dtype=float64", "progress=off", "epochs=2",
                             "batch=10", "optimizer=momentum", "lr=0.02", "steps=16"})
      config.set(word);
    for (const std::string& word : all) config.set(word);
    const DataSplit data = load("random:1x6x6", 103, 1);
    const Trained quiet = run_on(2, config, data);
    config.set("validate.every_steps=1");
    const Trained looked = run_on(2, config, data);
    EXPECT_EQ(quiet.result.losses, looked.result.losses) << name;
    EXPECT_TRUE(same_bits(quiet.parameters, looked.parameters)) << name;
  }
}

class ResumedPresets : public RunFolderTest {};

TEST_F(ResumedPresets, ContinueWithTheSameBits) {
  const DataSplit data = load("random:1x6x6", 103, 1);
  std::map<std::string, Words> presets = all_presets();
  presets.emplace("streaming-diloco radial",
                  Words{"strategy.every=6", "strategy.fragments=2", "strategy.merge=radial", "strategy.delay=2"});
  presets.emplace("diloco int8:8", Words{"strategy.every=5", "strategy.codec=int8:8", "strategy.outer=adam"});
  presets.emplace("diloco with sparta", Words{"strategy.every=5", "strategy.sparta=0.3"});
  presets.emplace("bsp int8:8", Words{"strategy.codec=int8:8"});
  presets.emplace("bsp mask:0.3", Words{"strategy.codec=mask:0.3"});
  presets.emplace("post-local-sgd later", Words{"strategy.every=3", "strategy.dense_steps=6"});
  presets.emplace("post-local-sgd never", Words{"strategy.every=3", "strategy.dense_steps=15"});
  for (const auto& [name, words] : presets) {
    Config config;
    for (const char* word :
         {"model=mlp", "hidden=12", "data=random:1x6x6", "dtype=float64", "progress=off", "epochs=5", "batch=10",
          "optimizer=momentum", "lr=0.02", "steps=18", "checkpoint.every_steps=4", "sync.first_bucket_bytes=128"})
      config.set(word);
    config.set("strategy=" + name.substr(0, name.find(' ')));
    for (const std::string& word : words) config.set(word);
    config.run = folder("whole");
    const Trained whole = run_on(2, config, data);
    config.run = folder("parted");
    EXPECT_THROW(run_on(2, config, data, interrupt_after(9)), std::runtime_error);
    config.checkpoint.resume = "true";
    const Trained parted = run_on(2, config, data);
    EXPECT_EQ(parted.result.losses, whole.result.losses) << name;
    EXPECT_TRUE(same_bits(parted.parameters, whole.parameters)) << name;
    EXPECT_EQ(parted.result.epochs.back().test_loss, whole.result.epochs.back().test_loss) << name;
    clear();
  }
}

}  // namespace
}  // namespace tutti::engine
