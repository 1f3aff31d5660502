// What a training run reports: where the time goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/engine/trainings.hpp"

namespace tutti::engine {
namespace {

// Rank 1 sleeps in a hook: that is its own time, and what the others wait for.
TEST(Trainer, WaitsForARankAreBookedToIt) {
  Config config = small_config();
  config.epochs = 2;
  const DataSplit data = load(config.data.source, 100, 1);
  const auto seconds = [](Nanoseconds from, Nanoseconds to) { return 1e-9 * static_cast<double>(to - from); };
  std::vector<double> least(2), most(2);  // between which an epoch's time is, by clocks of the test's own
  std::mutex mutex;
  const auto results = train_with(3, config, data, [&](int rank) {
    const auto times = std::make_shared<std::array<Nanoseconds, 3>>();
    return Hooks{.on_start_epoch = [=](const Moment&) { (*times)[0] = steady_now(); },
                 .on_sample =
                     [=](const Moment& now) {
                       if (now.step % 10 == 0) (*times)[1] = steady_now();
                     },
                 .on_forward =
                     [=](const Moment&) {
                       if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
                     },
                 .on_update = [=](const Moment&) { (*times)[2] = steady_now(); },
                 .on_end_epoch =
                     [=, &least, &most, &mutex](const Moment& now) {
                       const std::scoped_lock lock(mutex);
                       least[now.epoch] += seconds((*times)[1], (*times)[2]) / 3;
                       most[now.epoch] += seconds((*times)[0], steady_now()) / 3;
                     }};
  });
  for (std::size_t e = 0; e < 2; ++e) {
    const EpochResult& epoch = results[0].epochs[e];
    EXPECT_GE(epoch.phases.wall(), least[e]);
    EXPECT_LE(epoch.phases.wall(), most[e]);
    EXPECT_GE(epoch.phases.other, 0.1);  // rank 1 sleeps 0.3 s
    EXPECT_EQ(epoch.latest(), 1U);
    ASSERT_EQ(epoch.waited_for.size(), 3U);
    EXPECT_GT(epoch.waited_for[1], 2 * (epoch.waited_for[0] + epoch.waited_for[2]));
    EXPECT_NEAR(epoch.waited_for[0] + epoch.waited_for[1] + epoch.waited_for[2], epoch.phases.waiting, 1e-9);
    EXPECT_NEAR(epoch.samples_per_second * epoch.phases.wall(), 100, 1e-6);
  }
}

}  // namespace
}  // namespace tutti::engine
