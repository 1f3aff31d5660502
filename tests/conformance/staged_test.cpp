// Calls on device memory by way of the host, on fake devices: results, order of streams, lifetimes, failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/support/cases.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/comes_true.hpp"
#include "tests/support/fake_accelerator.hpp"
#include "tests/support/floats.hpp"
#include "tests/support/worlds.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

Settings small_slices(const std::string& transport) {
  Settings settings = test_settings(transport);
  settings.stage_bytes = 4 << 10;  // so that a call takes several slices
  settings.lane_bytes = 1 << 10;
  return settings;
}

class StagedConformance : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override { gpu.stumble(true); }
  void TearDown() override { gpu.stumble(false); }
  int size() const { return std::get<1>(GetParam()); }
  Settings settings() const { return small_slices(std::get<0>(GetParam())); }
  FakeAccelerator& gpu = use_fake_accelerator();
};

TEST_P(StagedConformance, BesideCallsOnHostMemory) {
  run_ranks(size(), settings(), [&](Communicator& world) {
    const float mine = static_cast<float>(world.rank() + 1);
    const float total = static_cast<float>(world.size() * (world.size() + 1) / 2);
    const Floats data(gpu, world.rank() % 2, std::vector<float>(5000, mine));
    for (int round = 0; round < 20; ++round) {
      std::vector<float> on_host(3000, mine);
      Work there = world.allreduce(data.buffer(), round == 0 ? sum : max);
      Work here = world.allreduce(on_host);
      here.wait();
      ASSERT_EQ(on_host, std::vector<float>(3000, total));
      there.wait();
    }
    EXPECT_EQ(data.read({nullptr, world.rank() % 2}), std::vector<float>(5000, total));
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, StagedConformance,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp"), ::testing::Values(1, 2, 3, 4)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

class Staged : public ::testing::Test {
 protected:
  FakeAccelerator& gpu = use_fake_accelerator();
};

TEST_F(Staged, BeginsAfterTheCallersStreamAndLetsItGoOnWithoutTheHost) {
  run_ranks(3, small_slices("shm"), [&](Communicator& world) {
    const Owned<Stream> mine(gpu, gpu.make_stream(0));
    const Floats data(gpu, 0, std::vector<float>(4000, -1));
    auto gate = gpu.hold(*mine);  // holds the kernel until both calls have been made and waited for
    gpu.delay(*mine, 50ms);
    data.fill(*mine, 2);
    Work work = world.allreduce(data.buffer(), sum, {.stream = *mine});
    work.wait(*mine);
    data.fill(*mine, 0.5f);  // a kernel that runs after the first call
    Work again = world.allreduce(data.buffer(), prod, {.stream = *mine});
    again.wait(*mine);
    EXPECT_FALSE(work.done()) << "the host got here although the first kernel has not run";
    EXPECT_FALSE(again.done());
    gate->open();
    EXPECT_EQ(data.read(*mine), std::vector<float>(4000, 0.125f));
    again.wait();
    work.wait();
  });
}

TEST_F(Staged, AStreamThatJoinsSeesTheResult) {
  run_ranks(2, small_slices("tcp"), [&](Communicator& world) {
    const Owned<Stream> a(gpu, gpu.make_stream(0)), b(gpu, gpu.make_stream(1));
    const Floats data(gpu, 0, std::vector<float>(1500));  // allocated once: freeing would wait for other streams
    for (int round = 0; round < 30; ++round) {
      data.fill(*a, 1);
      Work work = world.allreduce(data.buffer(), sum, {.stream = *a});
      if (round % 3 == 1) world.barrier().wait();
      work.wait(*b);  // before, while, or after the last copy is put on its stream
      EXPECT_EQ(data.read(*b), std::vector<float>(1500, 2)) << round;
      work.wait();
      work.wait(*b);
    }
  });
}

TEST_F(Staged, KeepsTheMemoryUntilTheWorkIsDone) {
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    Floats data(gpu, 0, std::vector<float>(3000, 1));
    const Buffer buffer = data.buffer();
    const Owned<Stream> mine(gpu, gpu.make_stream(0));
    world.barrier().wait();  // no copies are in flight on either rank
    auto gate = gpu.hold(*mine);
    std::weak_ptr<void> watched;
    {
      std::shared_ptr<void> owner = data.take();
      watched = owner;
      Work dropped = world.allreduce(buffer, sum, {.stream = *mine, .keep = std::move(owner)});
    }  // the destructor returns, although nothing has moved
    EXPECT_FALSE(watched.expired());
    world.barrier().wait();
    gate->open();
    world.barrier().wait();
    EXPECT_TRUE(comes_true([&] { return watched.expired(); }));
  });
}

TEST_F(Staged, TakesTheSamePinnedMemoryForCallsOfAnySize) {
  const std::size_t before = gpu.pinned_bytes();
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    const Floats little(gpu, 0, {1, 2, 3}), large(gpu, 0, std::vector<float>(200'000, 1));
    world.allreduce(little.buffer()).wait();
    world.barrier().wait();
    const std::size_t pinned = gpu.pinned_bytes() - before;
    world.barrier().wait();
    world.allreduce(large.buffer()).wait();
    world.barrier().wait();
    EXPECT_EQ(gpu.pinned_bytes() - before, pinned);
    EXPECT_EQ(pinned, 2u * 3 * 2 * (4 << 10)) << "two ranks of three slots of two halves";
    EXPECT_EQ(large.read({}), std::vector<float>(200'000, 2));
    world.barrier().wait();
  });
  EXPECT_EQ(gpu.pinned_bytes(), before);
}

// In place with different counts for input and output: blocks that are still to be sent must not be overwritten.
TEST_F(Staged, AlltoallvInPlaceMovesBlocksAbout) {
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    const bool first = world.rank() == 0;  // rank 0 gives 9000 elements and gets 5000
    const std::vector<std::size_t> in{first ? 10u : 5000u, first ? 9000u : 10u};
    const std::vector<std::size_t> out{first ? 10u : 9000u, first ? 5000u : 10u};
    std::vector<float> values(9010);
    std::iota(values.begin(), values.end(), first ? 0.0f : 20'000.0f);
    const Floats data(gpu, 0, values);
    Buffer given = data.buffer(), taken = data.buffer();
    given.count = in[0] + in[1];
    taken.count = out[0] + out[1];
    world.alltoallv(given, in, taken, out).wait();
    std::vector<float> expected(taken.count);
    std::iota(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(out[0]), first ? 0.0f : 10.0f);
    std::iota(expected.begin() + static_cast<std::ptrdiff_t>(out[0]), expected.end(), first ? 20'000.0f : 25'000.0f);
    std::vector<float> got = data.read({});
    got.resize(taken.count);
    EXPECT_EQ(got, expected);
    world.barrier().wait();
  });
}

TEST_F(Staged, SaysWhatIsWrong) {
  run_ranks(1, small_slices("inproc"), [&](Communicator& world) {
    const Floats data(gpu, 0, {1, 2});
    std::vector<float> host(2);
    EXPECT_STREQ(caught([&] { world.allreduce(data.buffer(), Buffer(host)).wait(); }).what(),
                 "allreduce: in is on device 0 and out on the host; both must be in one place");
    Buffer wrong = data.buffer();
    wrong.device.index = 7;
    EXPECT_STREQ(caught([&] { world.allreduce(wrong).wait(); }).what(),
                 "the buffer is said to be on device 7, but there are 2 devices, counted from 0");
    EXPECT_STREQ(caught([&] { world.allreduce(data.buffer(), sum, {.algorithm = "ring"}).wait(); }).what(),
                 "the buffer is on a GPU, which this transport does not reach");
    Collective call;
    call.kind = Kind::allreduce;
    call.in = call.out = data.buffer();
    const std::string why = world.explain(call);
    EXPECT_TRUE(why.starts_with("staged: rule '*: .. on cuda=staged' (built in)")) << why;
  });
}

TEST_F(Staged, ADeviceThatBreaksEndsTheCallOnAllRanks) {
  auto& broken = *new FakeAccelerator(2);  // never freed, because its threads still run
  use_accelerator(broken);
  std::atomic<int> failed = 0;
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    const Floats data(broken, world.rank(), std::vector<float>(50'000, 1));
    auto gate = world.rank() == 1 ? broken.hold({nullptr, 1}) : nullptr;
    Work work = world.allreduce(data.buffer());
    if (world.rank() == 1) broken.break_device(1, "device 1 does no more: an illegal address was used by a kernel");
    try {
      work.wait();
    } catch (const Error& error) {
      ++failed;
      EXPECT_EQ(error.culprit(), 1);
      EXPECT_NE(std::string(error.what()).find("an illegal address was used by a kernel"), std::string::npos)
          << error.what();
    }
    EXPECT_THROW(world.barrier().wait(), Error);
  });
  EXPECT_EQ(failed, 2);
  use_fake_accelerator();
}

}  // namespace
}  // namespace tutti::testing
