// Behaviour that users of Theano-MPI and mpi_learn rely on and that no other test checks under its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/data/formats/source.hpp"
#include "engine/data/sampler.hpp"
#include "tests/engine/runs.hpp"

namespace tutti::engine {
namespace {

Config config_of(const std::string& rule) {
  Config config;
  for (const char* word : {"model=mlp", "hidden=12", "data=random:1x6x6", "dtype=float64", "progress=off", "epochs=5",
                           "batch=32", "optimizer=momentum", "lr=0.01", "steps=50"})
    config.set(word);
  config.set("strategy", rule);
  return config;
}

DataSplit images() { return load("random:1x6x6", 320, 1); }

// Theano-MPI's BSP mean: four workers with batches of 8 samples give the result of one worker with a batch of 32.
TEST(TheanoMpi, BspIsTheGlobalBatch) {
  const DataSplit data = images();
  const Trained alone = run_on(1, config_of("gradients"), data), four = run_on(4, config_of("gradients"), data);
  EXPECT_LE(largest_difference(four.parameters, alone.parameters), 1e-10);
}

// avg (mean of parameters, rate times the ranks) gives the result of cdd (sum of updates); momenta are not exchanged.
TEST(TheanoMpi, AvgIsCdd) {
  const DataSplit data = images();
  for (const int ranks : {2, 3}) {
    const Trained avg = run_on(ranks, config_of("avg"), data), cdd = run_on(ranks, config_of("cdd"), data);
    EXPECT_LE(largest_difference(avg.parameters, cdd.parameters), 1e-10) << ranks;
    EXPECT_EQ(avg.result.exchanged.exchanges, 50U);
    EXPECT_NEAR(avg.result.epochs[0].learning_rate / cdd.result.epochs[0].learning_rate, ranks, 1e-12);
    Config mean = config_of("cdd");
    mean.set("strategy.merge=mean");
    Config unscaled = config_of("avg");
    unscaled.set("sync.scale_lr=false");
    EXPECT_LE(largest_difference(run_on(ranks, mean, data).parameters, run_on(ranks, unscaled, data).parameters),
              1e-10);
  }
}

// Exchange frequency: an epoch has ten steps, and exchanges after every fourth step and at its end.
TEST(TheanoMpi, ExchangesAsOftenAsItIsTold) {
  for (const char* rule : {"parameters", "avg", "cdd"}) {
    Config config = config_of(rule);
    config.set("strategy.every=4");
    EXPECT_EQ(run_on(2, config, images()).result.exchanged.exchanges, 15U) << rule;
    config.set("strategy.every=5");
    EXPECT_EQ(run_on(2, config, images()).result.exchanged.exchanges, 10U) << rule;
  }
}

TEST(TheanoMpi, TwoRunsHaveTheSameBits) {
  for (const char* rule : {"gradients", "parameters", "cdd"}) {
    Config config = config_of(rule);
    config.set("shift=1");
    const Trained one = run_on(3, config, images()), other = run_on(3, config, images());
    EXPECT_EQ(one.result.losses, other.result.losses) << rule;
    EXPECT_TRUE(same_bits(one.parameters, other.parameters)) << rule;
  }
}

// Leftover batches: samples that are left at the end of a file share a batch with the next file's first samples.
TEST(MpiLearn, LeftoversGoAcrossFiles) {
  Sampler::Plan plan{.samples = 132, .batch = 10, .way = Way::file, .files = {95, 30, 7}};
  EXPECT_EQ(Sampler(plan).steps(), 14U);
  EXPECT_EQ(Sampler(plan).global_count(13), 2U);
  plan.last = Last::drop;
  EXPECT_EQ(Sampler(plan).steps(), 13U);
}

}  // namespace
}  // namespace tutti::engine
