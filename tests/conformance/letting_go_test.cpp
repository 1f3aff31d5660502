// The end of a communicator with device memory. Freeing the memory waits for the device's streams; one of them may wait
// for a call of another communicator, which gets on only while some thread makes progress.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/support/comes_true.hpp"
#include "tests/support/floats.hpp"
#include "tests/support/worlds.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {
namespace {

Settings small_slices() {
  Settings settings = test_settings("shm");
  settings.stage_bytes = 4 << 10;
  settings.device_backends = "";
  return settings;
}

class LettingGo : public ::testing::TestWithParam<bool> {
 protected:
  FakeAccelerator& gpu = use_fake_accelerator();
};

TEST_P(LettingGo, OfMemoryWaitsForNobodysProgress) {
  const bool sends = GetParam();
  const std::size_t pinned = gpu.pinned_bytes(), used = gpu.used_bytes();
  std::atomic<bool> dropped = false;
  run_ranks(2, small_slices(), [&](Communicator& world) {
    std::optional<Communicator> other = world.dup();
    const Floats data(gpu, 0, std::vector<float>(5'000, 1));
    if (sends)
      other->shift(data.buffer(), data.buffer()).wait();  // in place, so it needs scratch memory on the device
    else
      other->allreduce(data.buffer()).wait();
    world.barrier().wait();
    EXPECT_GT(gpu.pinned_bytes(), pinned);
    const Owned<Stream> mine(gpu, gpu.make_stream(0));
    std::vector<float> host(100, 1);
    if (world.rank() == 1) {
      EXPECT_TRUE(comes_true([&] { return dropped.load(); }));
      world.allreduce(host).wait();
    } else {
      const Work held = world.allreduce(host);
      held.wait(*mine);
      other.reset();
      dropped = true;
      held.wait();
      gpu.synchronize(*mine);
    }
    EXPECT_EQ(host.front(), 2);
  });
  EXPECT_EQ(gpu.pinned_bytes(), pinned) << "it has gone with the job";
  EXPECT_EQ(gpu.used_bytes(), used);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, LettingGo, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Exchanges" : "Staged"; });

}  // namespace
}  // namespace tutti::testing
