// Tests that need a real device: folds with the same bits as on the host, streams that wait for the host, and
// collectives on device memory. Exits with 77, and the reason, if there is no device.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/support/cases.hpp"
#include "tests/support/worlds.hpp"
#include "transports/accelerators.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {
namespace {

using Memory = std::vector<std::byte>;

class Gpu : public ::testing::Test {
 protected:
  std::shared_ptr<void> upload(const Memory& data) {
    auto memory = gpu.allocate(0, data.size());
    gpu.copy({}, memory.get(), data.data(), data.size());
    return memory;
  }
  Memory download(const void* from, std::size_t bytes) {
    Memory data(bytes);
    gpu.copy({}, data.data(), from, bytes);
    gpu.synchronize(Stream{});
    return data;
  }
  Accelerator& gpu = accelerator();
};

// Random bit patterns, which include NaNs, infinities, zeros of both signs and subnormals.
Memory any_bits(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Memory data(bytes);
  for (std::byte& one : data) one = static_cast<std::byte>(random());
  return data;
}

// Set for compute-sanitizer, under which every access costs a hundred times as much.
const bool few = std::getenv("GPU_TEST_FEW") != nullptr;

TEST_F(Gpu, FoldsBitForBitAsTheHost) {
  for (int d = 0; d < dtype_count; ++d)
    for (int o = 0; o < op_count; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<Op>(o);
      if (!supports(op, dtype)) continue;
      for (const std::size_t sources : {2u, 3u, 20u})
        for (const std::size_t skip : {0u, 1u})  // 1 element: no address is aligned to 16 bytes
          for (const std::size_t count : {1u, 7u, few ? 5003u : 100'003u}) {
            const Fold fold{dtype, op, op == Op::avg ? 3.0 : 1.0};
            const std::size_t bytes = count * fold.width(), offset = skip * fold.width();
            std::vector<Memory> data;
            std::vector<std::shared_ptr<void>> there;
            std::vector<const std::byte*> from, on_device;
            for (std::size_t s = 0; s < sources; ++s) data.push_back(any_bits(offset + bytes, s + 1));
            for (const Memory& one : data) {
              there.push_back(upload(one));
              from.push_back(one.data() + offset);
              on_device.push_back(static_cast<const std::byte*>(there.back().get()) + offset);
            }
            Memory expected(bytes);
            fold.of(expected.data(), from, bytes);
            const auto elsewhere = upload(Memory(offset + bytes));
            std::vector<std::byte*> places = {static_cast<std::byte*>(elsewhere.get()) + offset};
            for (const std::byte* one : on_device) places.push_back(const_cast<std::byte*>(one));
            gpu.fold({}, fold, places, on_device, bytes);
            for (const std::byte* const place : {places[0], places[1], places.back()}) {
              const Memory got = download(place, bytes);
              ASSERT_EQ(std::memcmp(got.data(), expected.data(), bytes), 0)
                  << name(dtype) << " " << name(op) << ", " << sources << " sources of " << count << ", offset " << skip
                  << ", place " << place - places[0];
            }
          }
    }
}

TEST_F(Gpu, ScalesBitForBitAsTheHost) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Memory data = any_bits(100'003 * size_of(dtype), 5);
    Memory expected(data.size());
    scale(dtype, expected.data(), data.data(), data.size(), 0.3);
    const auto memory = upload(data);
    auto* const at = static_cast<std::byte*>(memory.get());
    gpu.scale({}, dtype, {at, data.size()}, at, 0.3);
    EXPECT_EQ(download(at, data.size()), expected) << name(dtype);
  }
}

TEST_F(Gpu, StreamsWaitForTheHostWithoutBlockingIt) {
  const Owned<Stream> stream(gpu, gpu.make_stream(0));
  const Owned<Event> event(gpu, gpu.make_event(0));
  for (int round = 0; round < 3; ++round) {
    auto gate = gpu.hold(*stream);
    gpu.record(*event, *stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(gpu.query(*event));
    gate->open();
    gpu.synchronize(*event);
  }
}

TEST_F(Gpu, KnowsItsMemory) {
  const auto memory = gpu.allocate(0, 1 << 20);
  const auto* const inside = static_cast<const std::byte*>(memory.get()) + 1000;
  const auto pinned = gpu.allocate_pinned(100);
  EXPECT_EQ(gpu.device_of(inside), (Device{Device::Kind::cuda, 0}));
  EXPECT_EQ(gpu.device_of(pinned.get()), Device{});
  EXPECT_EQ(gpu.allocation_of(inside).base, memory.get());
  EXPECT_EQ(gpu.failure(0), "");
  try {
    gpu.allocate(0, std::size_t{1} << 50);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource) << error.what();
  }
}

TEST_F(Gpu, StagedCollectivesOfEveryKindDtypeAndOperator) {
  for (const int size : {2, 4}) {
    auto all = cases(size, case_seed());
    for (Case& one : all) one.device = true;
    std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(size));
    Settings settings = test_settings("shm");
    settings.select = "*: .. on cuda=staged";
    settings.stage_bytes = 16 << 10;
    run_ranks(size, settings, [&](Communicator& world) {
      play(world, all, sums[static_cast<std::size_t>(world.rank())]);
      world.barrier().wait();
    });
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const auto& mine : sums) ASSERT_EQ(mine[i], sums[0][i]) << "ranks differ: " << all[i].text();
  }
}

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const std::string why = tutti::accelerator().why_not(); !why.empty()) {
    std::printf("skipped: no CUDA device: %s\n", why.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
