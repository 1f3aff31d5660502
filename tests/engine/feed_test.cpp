// Transfer of batches to a fake device, and the choice of a rank's device.
#include "engine/loop/feed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/data/formats/source.hpp"
#include "engine/loop/device.hpp"
#include "tests/support/fake_accelerator.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tutti::testing::FakeAccelerator;

struct Seen {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  bool operator==(const Seen&) const = default;
};

/// Enqueues a kernel on `compute` that records the batch's contents when it runs.
std::shared_ptr<Seen> look(FakeAccelerator& gpu, const Feed& feed, const Batch& batch, const Stream& compute,
                           std::size_t width) {
  auto seen = std::make_shared<Seen>();
  const auto* const pixels = reinterpret_cast<const float*>(gpu.seen(feed.field(batch, 0)));
  const auto* const labels = reinterpret_cast<const std::int64_t*>(gpu.seen(feed.field(batch, 1)));
  gpu.wait(compute, feed.arrived(batch));
  gpu.run(compute, [=, count = batch.count] {
    seen->pixels.assign(pixels, pixels + count * width);
    seen->labels.assign(labels, labels + count);
  });
  gpu.record(feed.used(batch), compute);
  return seen;
}

// The host runs ahead of late kernels. Copies run ahead too, but must not overwrite a batch that kernels still read.
TEST(Feed, BringsWhatTheLoaderMadeInItsOrder) {
  FakeAccelerator gpu(1);
  const DataSplit data = load("random:1x5x5", 90, 1);
  const Sampler sampler({.samples = data.train->size(), .batch = 7, .rank = 0, .size = 1, .seed = 1});
  std::vector<Transform> transforms = data.preparation();
  transforms.insert(transforms.begin(), shift("image", 1));
  std::vector<Seen> expected;
  Loader plain(data.train, sampler, transforms, {.depth = 3});
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    plain.start_epoch(epoch);
    while (const auto batch = plain.next()) {
      const auto pixels = (*batch)["image"].as<float>();
      const auto labels = (*batch)["label"].as<std::int64_t>();
      expected.push_back({{pixels.begin(), pixels.end()}, {labels.begin(), labels.end()}});
    }
  }
  std::vector<std::shared_ptr<Seen>> seen;
  gpu.stumble(true);
  Owned<Stream> compute(gpu, gpu.make_stream(0));
  {
    Feed feed(gpu, 0, {7 * 25 * sizeof(float), 7 * sizeof(std::int64_t)}, 3);
    Loader loader(data.train, sampler, transforms, {.depth = 3, .threads = 2}, [&](Batch& batch) { feed.send(batch); });
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      while (std::optional<const Batch> batch = loader.next()) {
        EXPECT_FALSE((*batch)["image"].here());
        if (batch->step % 4 == 0) gpu.delay(*compute, std::chrono::milliseconds(3));
        seen.push_back(look(gpu, feed, *batch, *compute, 25));
      }
    }
    loader.start_epoch(3);  // the batches of this epoch are never taken
    gpu.synchronize(*compute);
  }
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(*seen[i] == expected[i]) << "batch " << i;
  EXPECT_EQ(gpu.pinned_bytes(), 0U);
}

TEST(Feed, PinsASlotForEachBatchUnderWay) {
  FakeAccelerator gpu(1);
  const Feed feed(gpu, 0, {400, 80}, 2);
  EXPECT_EQ(gpu.pinned_bytes(), 4U * (512 + 256));
}

TEST(Device, SaysWhyThereIsNone) {
  EXPECT_EQ(why_no_device({.torch_has_cuda = true, .torch_devices = 2, .why_not = {}, .devices = 2}), "");
  EXPECT_THAT(why_no_device({}), AllOf(StartsWith("this LibTorch was built without CUDA;"), HasSubstr("TUTTI_TORCH")));
  EXPECT_EQ(why_no_device({.torch_has_cuda = true, .torch_devices = 0, .why_not = "no driver", .devices = 0}),
            "no driver");
  EXPECT_THAT(why_no_device({.torch_has_cuda = true, .torch_devices = 0, .why_not = {}, .devices = 1}),
              HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(why_no_device({.torch_has_cuda = true, .torch_devices = 1, .why_not = {}, .devices = 4}),
              AllOf(StartsWith("LibTorch sees 1 devices, and tutti 4;"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(Device, IsChosenByAllRanksTogether) {
  tutti::testing::use_fake_accelerator();
  tutti::testing::run_ranks(4, tutti::testing::test_settings("inproc"), [](Communicator& world) {
    EXPECT_EQ(world.device(), world.rank() % 2) << "two devices, in turns";
    EXPECT_EQ(world.split(world.rank() / 2)->device(), world.rank() % 2) << "by the job's ranks, not the group's";
    for (const char* wanted : {"auto", "cuda"}) {
      const DeviceChoice all = choose_device(wanted, "", world);
      EXPECT_TRUE(all.on_device);
      EXPECT_EQ(all.why_not, "");
    }
    const std::string mine = world.rank() < 2 ? "" : "none here " + std::to_string(world.rank()) + "; buy one";
    const DeviceChoice some = choose_device("auto", mine, world);
    EXPECT_FALSE(some.on_device);
    EXPECT_EQ(some.why_not, "rank 2 has no device: none here 2");
    EXPECT_FALSE(choose_device("cpu", mine, world).on_device);
    try {
      choose_device("cuda", mine, world);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "device=cuda: rank 2 has no device: none here 2; buy one; or say device=cpu");
      EXPECT_EQ(error.code(), Code::invalid);
    }
  });
}

}  // namespace
}  // namespace tutti::engine
