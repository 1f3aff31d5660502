// send, recv, sendrecv and shift of device memory, on fake devices: contents, order, streams, lifetimes,
// failure.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "tests/support/caught.hpp"
#include "tests/support/comes_true.hpp"
#include "tests/support/fake_gpus.hpp"
#include "tests/support/floats.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worlds.hpp"
#include "transports/accelerators.hpp"
#include "transports/core/deferred_release.hpp"
#include "tutti/communicator.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t slice = 16 << 10;  // in bytes; four slices are 16384 floats

Settings small_slices(const std::string& transport) {
  Settings settings = test_settings(transport);
  settings.stage_bytes = slice;
  return settings;
}

std::vector<float> ramp(std::size_t count, int from) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), static_cast<float>(from));
  return values;
}

class Exchange : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { gpu.stumble(true); }
  void TearDown() override { gpu.stumble(false); }
  Settings settings() const { return small_slices(GetParam()); }
  FakeAccelerator& gpu = use_fake_accelerator();
};

TEST_P(Exchange, BringsWhatWasSentWhateverItsSize) {
  for (const int size : {1, 2, 3})
    run_ranks(size, settings(), [&](Communicator& world) {
      const int me = world.rank(), device = me % 2, n = world.size();
      for (const std::size_t count : {0, 1, 4095, 4096, 4097, 30'000}) {
        const Floats mine(gpu, device, ramp(count, me)), got(gpu, device, std::vector<float>(count));
        Work to = world.send(mine.buffer(), (me + 1) % n, 3);
        Work from = world.recv(got.buffer(), (me + n - 1) % n, 3);
        from.wait();
        to.wait();
        EXPECT_EQ(got.read(), ramp(count, (me + n - 1) % n)) << count;
        world.shift(mine.buffer(), got.buffer(), -1).wait();
        EXPECT_EQ(got.read(), ramp(count, (me + 1) % n)) << count;
        world.shift(mine.buffer(), mine.buffer(), 1).wait();  // in place
        EXPECT_EQ(mine.read(), ramp(count, (me + n - 1) % n)) << count;
      }
      // Input and output are the beginning of the same memory, with different sizes.
      const Floats both(gpu, device, ramp(20'000, 0));
      Buffer in = both.buffer(), out = both.buffer();
      in.count = me % 2 == 0 ? 15'000 : 9'000;
      out.count = me % 2 == 0 ? 9'000 : 15'000;
      if (n == 2) {
        world.sendrecv(in, 1 - me, out, 1 - me).wait();
        EXPECT_EQ(both.read(), ramp(20'000, 0));
      }
      world.barrier().wait();
    });
}

// Messages with equal tags match in order, even if slices of several are in flight; other tags do not wait for them.
TEST_P(Exchange, EqualTagsKeepTheirOrderAndOthersDoNotWait) {
  run_ranks(2, settings(), [&](Communicator& world) {
    const int peer = 1 - world.rank();
    std::vector<Floats> out, in;
    for (int i = 0; i < 12; ++i) {
      const std::size_t count = i % 3 == 0 ? 13'000 : static_cast<std::size_t>(i) * 500;
      out.emplace_back(gpu, 0, ramp(count, 100 * i + world.rank()));
      in.emplace_back(gpu, 1, std::vector<float>(count));
    }
    const Floats never(gpu, 0, std::vector<float>(9'000)), late(gpu, 0, std::vector<float>(9'000, 7));
    std::vector<Work> unmatched;
    for (int i = 0; i < 20; ++i) unmatched.push_back(world.recv(never.buffer(), peer, 50 + i));
    std::vector<Work> works;
    for (int i = 0; i < 12; ++i) works.push_back(world.send(out[static_cast<std::size_t>(i)].buffer(), peer, i % 2));
    for (int i = 0; i < 12; ++i) works.push_back(world.recv(in[static_cast<std::size_t>(i)].buffer(), peer, i % 2));
    while (!works.empty()) {
      works.back().wait();
      works.pop_back();
    }
    for (int i = 0; i < 12; ++i) {
      const auto& got = in[static_cast<std::size_t>(i)];
      EXPECT_EQ(got.read(), ramp(got.buffer().count, 100 * i + peer)) << i;
    }
    for (int i = 0; i < 20; ++i) world.send(late.buffer(), peer, 50 + i).wait();
    for (Work& work : unmatched) work.wait();
    EXPECT_EQ(never.read(), late.read());
    world.barrier().wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Exchange, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });

class Exchanging : public ::testing::Test {
 protected:
  FakeAccelerator& gpu = use_fake_accelerator();
};

TEST_F(Exchanging, BeginsAfterTheCallersStreamAndAStreamCanWait) {
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    const Owned<Stream> mine(gpu, gpu.make_stream(0));
    const Floats data(gpu, 0, std::vector<float>(20'000, -1)), got(gpu, 0, std::vector<float>(20'000, -2));
    auto gate = gpu.hold(*mine);
    gpu.delay(*mine, 20ms);
    data.fill(*mine, static_cast<float>(world.rank()));
    Work work = world.sendrecv(data.buffer(), 1 - world.rank(), got.buffer(), 1 - world.rank(), 0, {.stream = *mine});
    work.wait(*mine);
    std::atomic<float> seen = -3;  // what a kernel sees that runs behind the call
    gpu.run(*mine, [&, at = reinterpret_cast<const float*>(gpu.seen(got.buffer().data))] { seen = at[19'999]; });
    EXPECT_FALSE(work.done());
    gate->open();
    gpu.synchronize(*mine);
    EXPECT_EQ(seen, static_cast<float>(1 - world.rank()));
    work.wait();
    world.barrier().wait();
  });
}

TEST_F(Exchanging, KeepsTheMemoryAndUsesItsPinnedMemoryAgain) {
  const std::size_t before = gpu.pinned_bytes();
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    std::weak_ptr<void> watched;
    for (int round = 0; round < 5; ++round) {
      Floats data(gpu, 0, std::vector<float>(40'000, 1)), got(gpu, 0, std::vector<float>(40'000));
      const Buffer buffer = data.buffer();
      std::shared_ptr<void> owner = data.take();
      watched = owner;
      Work sent = world.send(buffer, 1 - world.rank(), 0, {.keep = std::move(owner)});
      world.recv(got.buffer(), 1 - world.rank()).wait();
      EXPECT_EQ(got.read(), std::vector<float>(40'000, 1));
      sent.wait();
    }
    EXPECT_TRUE(comes_true([&] { return watched.expired(); }));
    world.barrier().wait();
    EXPECT_EQ(gpu.pinned_bytes() - before, 2U * 2 * 2 * slice) << "two ranks of two slots each way";
    world.barrier().wait();
  });
  EXPECT_EQ(gpu.pinned_bytes(), before);
}

TEST_F(Exchanging, SaysWhatIsWrong) {
  std::atomic<int> told = 0;
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    const Floats data(gpu, 0, std::vector<float>(10'000));
    std::vector<float> host(10'000);
    EXPECT_STREQ(caught([&] { world.sendrecv(data.buffer(), 0, Buffer(host), 0).wait(); }).what(),
                 "send: in is on device 0 and out on the host; both must be in one place");
    for (const int peer : {-1, 2}) {
      const std::string why = "peer " + std::to_string(peer) + " is not a rank of this communicator";
      EXPECT_NE(refusal([&] { static_cast<void>(world.send(data.buffer(), peer)); }).find("send: " + why),
                std::string::npos);
      EXPECT_NE(refusal([&] { static_cast<void>(world.recv(data.buffer(), peer)); }).find("recv: " + why),
                std::string::npos);
    }
    Buffer wrong = data.buffer();
    wrong.device.index = 9;
    EXPECT_STREQ(caught([&] { world.send(wrong, 0).wait(); }).what(),
                 "the buffer is said to be on device 9, but there are 2 devices, counted from 0");
    wrong = data.buffer();
    wrong.count = 9'999;
    const std::string both = caught([&] {
                               world.rank() == 0 ? world.send(data.buffer(), 1).wait() : world.recv(wrong, 0).wait();
                               world.barrier().wait();
                             }).what();
    EXPECT_NE(both.find("count 10000"), std::string::npos) << both;
    EXPECT_NE(both.find("count 9999"), std::string::npos) << both;
    ++told;
  });
  EXPECT_EQ(told, 2);
}

TEST_F(Exchanging, ADeviceThatBreaksEndsItOnBothRanks) {
  auto& broken = *new FakeAccelerator(2);  // never freed, because its threads still run
  use_accelerator(broken);
  std::atomic<int> failed = 0;
  run_ranks(2, small_slices("shm"), [&](Communicator& world) {
    const Floats data(broken, world.rank(), std::vector<float>(50'000, 1));
    auto gate = world.rank() == 1 ? broken.hold({nullptr, 1}) : nullptr;
    Work work = world.rank() == 1 ? world.send(data.buffer(), 0) : world.recv(data.buffer(), 1);
    if (world.rank() == 1) broken.break_device(1, "device 1 does no more: an illegal address was used by a kernel");
    try {
      work.wait();
    } catch (const Error& error) {
      ++failed;
      EXPECT_EQ(error.culprit(), 1);
      EXPECT_NE(std::string(error.what()).find("an illegal address was used"), std::string::npos) << error.what();
    }
    EXPECT_THROW(world.barrier().wait(), Error);
  });
  EXPECT_EQ(failed, 2);
  use_fake_accelerator();
}

/// Waits until everything has been released whose release was deferred so far.
void wait_for_owners() {
  auto last = std::make_shared<int>();
  const std::weak_ptr<int> watched = last;
  deferred_release(std::move(last));
  EXPECT_TRUE(comes_true([&] { return watched.expired(); }));
}

/// Aborts a call whose copies do not end (`stuck`: its memory's owner), and one that has nothing on a stream (`idle`).
void give_up(FakeAccelerator& slow, const std::string& by, std::weak_ptr<void>& stuck, std::weak_ptr<void>& idle) {
  const bool is_module = by == "nccl" || by == "cudaipc";
  const Settings settings = with_fake_nccl(small_slices("shm"));
  use_accelerator(slow);
  run_ranks(1, settings, [&](Communicator& world) {
    if (is_module) world.use_backend(by);
    Floats data(slow, 0, std::vector<float>(40'000, 1)), other(slow, 0, std::vector<float>(10, 1));
    Buffer in = data.buffer(), out = data.buffer();
    in.count = out.count = 20'000;
    out.data += in.bytes();
    const Buffer later = other.buffer();
    std::shared_ptr<void> owner = data.take(), second = other.take();
    stuck = owner;
    idle = second;
    const Owned<Stream> mine(slow, slow.make_stream(0));
    slow.stall(true);
    const std::size_t before = slow.copies();
    const CallOptions options{.algorithm = by == "send" ? "" : by, .keep = std::move(owner)};
    const Work work = by == "send" ? world.send(in, 0, 0, options) : world.allreduce(in, out, sum, options);
    while (slow.copies() == before) EXPECT_FALSE(work.wait_for(Seconds(0.001)));
    auto gate = slow.hold(*mine);
    const Work behind =
        world.allreduce(later, sum, {.algorithm = "staged", .stream = *mine, .keep = std::move(second)});
    world.abort("the test");
    EXPECT_THROW(work.wait(), Error);
    EXPECT_THROW(behind.wait(), Error);
    gate->open();
    slow.stall(false);
  });
}

// A device whose copies do not end may still use the memory after the failure, so its owner must not be released.
TEST_F(Exchanging, WhatADeviceMayStillUseIsKeptAfterAFailure) {
  const auto modules = provider_names(Settings());
  for (const std::string by : {"send", "staged", "nccl", "cudaipc"}) {
    if ((by == "nccl" || by == "cudaipc") && std::ranges::count(modules, by) == 0) continue;
    auto& slow = *new FakeAccelerator(1);
    std::weak_ptr<void> stuck, idle;
    give_up(slow, by, stuck, idle);
    wait_for_owners();
    EXPECT_TRUE(idle.expired()) << "nothing of it was on a stream of ours";
    EXPECT_FALSE(stuck.expired()) << by;
    use_fake_accelerator();
  }
}

TEST_F(Exchanging, AForkedChildLeavesTheDeviceToItsParent) {
  run_ranks(1, small_slices("shm"), [&](Communicator& world) {
    std::optional<Communicator> other = world.dup();
    const Floats data(gpu, 0, ramp(20'000, 0)), got(gpu, 0, std::vector<float>(20'000));
    other->sendrecv(data.buffer(), 0, got.buffer(), 0).wait();
    other->allreduce(data.buffer(), got.buffer(), sum).wait();
    const std::size_t before = gpu.destroyed();
    const pid_t child = ::fork();
    if (child == 0) {
      other.reset();
      ::_exit(gpu.destroyed() == before ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the child has destroyed streams or events";
    EXPECT_EQ(gpu.destroyed(), before);
    other.reset();
    EXPECT_TRUE(comes_true([&] { return gpu.destroyed() > before; }));  // destroyed by a thread that makes progress
  });
}

}  // namespace
}  // namespace tutti::testing
