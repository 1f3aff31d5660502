// The fake accelerator of the tests keeps its promises: order, poison, and memory that other processes open.
#include "tests/support/fake_accelerator.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/support/processes.hpp"

namespace tutti::testing {
namespace {

std::vector<float> read(FakeAccelerator& gpu, const void* from, std::size_t count) {
  std::vector<float> data(count);
  gpu.copy({}, data.data(), from, count * sizeof(float));
  gpu.synchronize(Stream{});
  return data;
}

// Must be the first test, because it forks, so that this process must not have threads yet.
TEST(FakeAccelerator, SharesMemoryBetweenProcesses) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  Fleet fleet(2, [&](int rank) -> std::string {
    FakeAccelerator gpu(2);  // its threads belong to this process
    MemoryHandle handle;
    if (rank == 0) {
      const std::vector<float> data{1, 2, 3};
      auto memory = gpu.allocate(0, 12);
      gpu.copy({}, memory.get(), data.data(), 12);
      gpu.synchronize(Stream{});
      handle = gpu.share(gpu.allocation_of(memory.get()));
      if (::write(pipes[1], &handle, sizeof handle) != sizeof handle) return "cannot write";
      while (gpu.seen(memory.get())[0] != std::byte{0x7f}) std::this_thread::yield();
      return "";
    }
    if (::read(pipes[0], &handle, sizeof handle) != sizeof handle) return "cannot read";
    std::byte* const base = gpu.open(handle, 1);
    std::vector<float> got(3);
    gpu.copy({nullptr, 1}, got.data(), base, 12);
    gpu.synchronize(Stream{nullptr, 1});
    if (got != std::vector<float>{1, 2, 3}) return "not what the other wrote";
    gpu.run({nullptr, 1}, [&] { gpu.seen(base)[0] = std::byte{0x7f}; });
    gpu.synchronize(Stream{nullptr, 1});
    gpu.close(base);
    return gpu.open_handles() == 0 ? "" : "a handle is still open";
  });
  fleet.expect_success();
  ::close(pipes[0]);
  ::close(pipes[1]);
}

TEST(FakeAccelerator, DoesTheTasksOfAStreamInOrderAndLetsStreamsWaitForOneAnother) {
  FakeAccelerator& gpu = fake_accelerator();
  gpu.stumble(true);
  const Owned<Stream> a(gpu, gpu.make_stream(0)), b(gpu, gpu.make_stream(0));
  const Owned<Event> event(gpu, gpu.make_event(0));
  const auto memory = gpu.allocate(0, 4);
  const std::vector<float> one{1}, two{2};
  gpu.wait(*b, *event);  // does not block, since the event was never recorded
  gpu.copy(*b, memory.get(), two.data(), 4);
  gpu.synchronize(*b);
  EXPECT_EQ(read(gpu, memory.get(), 1), two);
  std::atomic<bool> began = false;
  auto gate = gpu.hold(*a);
  gpu.copy(*a, memory.get(), one.data(), 4);
  gpu.record(*event, *a);
  gpu.wait(*b, *event);
  gpu.run(*b, [&] { began = true; });
  gpu.record(*event, *b);
  EXPECT_FALSE(gpu.query(*event));
  EXPECT_FALSE(began) << "its stream waits for one that is held";
  gate->open();
  gpu.synchronize(*event);
  EXPECT_TRUE(began);
  EXPECT_TRUE(gpu.query(*event));
  EXPECT_EQ(read(gpu, memory.get(), 1), one);
  gpu.stumble(false);
}

TEST(FakeAccelerator, KnowsItsMemory) {
  FakeAccelerator& gpu = fake_accelerator();
  auto memory = gpu.allocate(1, 10'000);
  const auto* const inside = static_cast<const std::byte*>(memory.get()) + 9'000;
  EXPECT_EQ(gpu.device_of(inside), (Device{Device::Kind::cuda, 1}));
  const Allocated whole = gpu.allocation_of(inside);
  EXPECT_EQ(whole.base, memory.get());
  memory.reset();
  EXPECT_EQ(gpu.device_of(inside), Device{});
  const auto again = gpu.allocate(1, 10'000);
  EXPECT_EQ(again.get(), whole.base) << "as of real allocators";
  EXPECT_NE(gpu.allocation_of(again.get()).id, whole.id);
  gpu.allow(1 << 20);
  EXPECT_THROW(gpu.allocate(0, 2 << 20), Error);
  gpu.allow(std::size_t{1} << 40);
}

TEST(FakeAccelerator, KeepsTheHostOutOfDeviceMemory) {
  EXPECT_DEATH(
      {
        const auto memory = fake_accelerator().allocate(0, 4);
        *static_cast<volatile int*>(memory.get()) = 1;
      },
      "");
}

}  // namespace
}  // namespace tutti::testing
