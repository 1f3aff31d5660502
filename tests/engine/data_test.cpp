// Sampler, IDX files, folders, shifts and the loader: everything before a network sees an image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "engine/data/dataset.hpp"
#include "engine/data/idx.hpp"
#include "engine/data/loader.hpp"
#include "engine/data/random.hpp"
#include "engine/data/sampler.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"
#include "transports/core/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

class DataTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::vector<std::uint8_t>& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return folder_ / name;
  }

  fs::path write_gzip(const std::string& name, const std::vector<std::uint8_t>& bytes) const {
    gzFile out = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
    return folder_ / name;
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

std::vector<std::uint8_t> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

IdxArray some_images(std::size_t count, std::size_t height = 4, std::size_t width = 3) {
  IdxArray array{{count, height, width}, std::vector<std::uint8_t>(count * height * width)};
  std::iota(array.bytes.begin(), array.bytes.end(), std::uint8_t{0});
  return array;
}

TEST(Random, IsTheSameOnEveryPlatform) {
  // The first outputs of SplitMix64 from seed 0, as its author publishes them.
  Random random(0);
  EXPECT_EQ(random.next(), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(random.next(), 0x06c45d188009454fULL);
}

TEST(Random, KeysGiveDifferentStreams) {
  std::set<std::uint64_t> firsts;
  for (int seed = 0; seed < 8; ++seed)
    for (int epoch = 0; epoch < 8; ++epoch)
      for (int sample = 0; sample < 8; ++sample)
        firsts.insert(Random::keyed(static_cast<std::uint64_t>(seed), epoch, sample).next());
  EXPECT_EQ(firsts.size(), 512U);
}

TEST(Random, BelowIsUniformEnough) {
  Random random(7);
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) ++seen[random.below(7)];
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(Sampler, SeesEverySampleOnceAndAllRankCountsSeeTheSameBatches) {
  for (std::size_t samples : {5, 10, 103, 128})
    for (std::size_t batch : {5, 7, 64})
      for (int size = 1; size <= 5; ++size) {
        Sampler alone({.samples = samples, .batch = batch, .seed = 3});
        alone.start_epoch(2);
        std::vector<Sampler> ranks;
        for (int r = 0; r < size; ++r) {
          ranks.emplace_back(Sampler::Plan{.samples = samples, .batch = batch, .rank = r, .size = size, .seed = 3});
          ranks.back().start_epoch(2);
        }
        std::vector<std::uint32_t> seen;
        for (std::size_t step = 0; step < alone.steps(); ++step) {
          std::vector<std::uint32_t> together;
          for (const Sampler& rank : ranks)
            together.insert(together.end(), rank.local(step).begin(), rank.local(step).end());
          const auto whole = alone.local(step);
          EXPECT_TRUE(std::equal(together.begin(), together.end(), whole.begin(), whole.end()));
          EXPECT_EQ(together.size(), alone.global_count(step));
          seen.insert(seen.end(), together.begin(), together.end());
        }
        std::sort(seen.begin(), seen.end());
        std::vector<std::uint32_t> all(samples);
        std::iota(all.begin(), all.end(), 0U);
        EXPECT_EQ(seen, all) << samples << " samples, batch " << batch << ", " << size << " ranks";
      }
}

TEST(Sampler, SharesDifferByOneAtMost) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(share(10, rank, 4).count, rank < 2 ? 3U : 2U);
  EXPECT_EQ(share(2, 3, 4).count, 0U);
  EXPECT_EQ(share(10, 3, 4).begin + share(10, 3, 4).count, 10U);
}

TEST(Sampler, OrderComesFromSeedAndEpochAlone) {
  const auto order = [](std::uint64_t seed, std::size_t epoch) {
    Sampler sampler({.samples = 50, .batch = 50, .seed = seed});
    sampler.start_epoch(epoch);
    return std::vector(sampler.local(0).begin(), sampler.local(0).end());
  };
  EXPECT_EQ(order(1, 4), order(1, 4));
  EXPECT_NE(order(1, 4), order(1, 5));
  EXPECT_NE(order(1, 4), order(2, 4));
}

TEST(Sampler, RefusesMoreRanksThanSamples) {
  EXPECT_THAT(refusal([] { Sampler({.samples = 3, .batch = 8, .rank = 0, .size = 4}); }),
              AllOf(HasSubstr("4 ranks"), HasSubstr("only 3 samples")));
  EXPECT_THAT(refusal([] { Sampler({.samples = 9, .batch = 3, .rank = 0, .size = 4}); }), HasSubstr("set batch="));
}

TEST_F(DataTest, IdxComesBackPlainAndGzipped) {
  const IdxArray images = some_images(5);
  write_idx(folder_ / "plain", images);
  const fs::path gzipped = write_gzip("packed.gz", bytes_of(folder_ / "plain"));
  for (const fs::path& file : {folder_ / "plain", gzipped}) {
    const IdxArray back = read_idx(file, 3);
    EXPECT_EQ(back.dims, images.dims);
    EXPECT_EQ(back.bytes, images.bytes);
  }
}

TEST_F(DataTest, IdxErrorsNameFileExpectedAndFound) {
  write_idx(folder_ / "good", some_images(5));
  std::vector<std::uint8_t> bytes = bytes_of(folder_ / "good");

  auto shorter = bytes;
  shorter.resize(bytes.size() - 7);
  EXPECT_THAT(refusal([&] { read_idx(write("short", shorter), 3); }),
              AllOf(HasSubstr("short: expected 60 bytes"), HasSubstr("found 53")));
  auto longer = bytes;
  longer.push_back(0);
  EXPECT_THAT(refusal([&] { read_idx(write("long", longer), 3); }), HasSubstr("expected 60 bytes"));
  EXPECT_THAT(refusal([&] { read_idx(write("stub", {0, 0, 8}), 3); }), HasSubstr("header of 16 bytes, found 3"));
  EXPECT_THAT(refusal([&] { read_idx(folder_ / "good", 1); }), HasSubstr("00 00 08 01, found 00 00 08 03"));
  EXPECT_THAT(refusal([&] { read_idx(folder_ / "absent", 3); }), HasSubstr("absent: cannot be opened"));
  const std::vector<std::uint8_t> huge{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  EXPECT_THAT(refusal([&] { read_idx(write("huge", huge), 3); }), HasSubstr("impossible size"));

  const fs::path packed = write_gzip("packed.gz", bytes);
  auto cut = bytes_of(packed);
  cut.resize(cut.size() - 12);
  EXPECT_THAT(refusal([&] { read_idx(write("cut.gz", cut), 3); }), HasSubstr("cut.gz"));
  auto corrupt = bytes_of(packed);
  corrupt[corrupt.size() / 2] ^= 0x55;
  EXPECT_THAT(refusal([&] { read_idx(write("corrupt.gz", corrupt), 3); }), HasSubstr("corrupt.gz"));
}

TEST_F(DataTest, FolderIsReadInMnistsLayout) {
  write_idx(folder_ / "train-images-idx3-ubyte", some_images(6));
  write_idx(folder_ / "train-labels-idx1-ubyte", {{6}, {0, 1, 2, 0, 1, 2}});
  write_idx(folder_ / "t10k-images-idx3-ubyte", some_images(2));
  write_idx(folder_ / "labels", {{2}, {1, 4}});
  EXPECT_THAT(refusal([&] { load(folder_, 1, 1); }),
              AllOf(HasSubstr("has no t10k-labels-idx1-ubyte[.gz]"), HasSubstr("tutti data optdigits")));
  write_gzip("t10k-labels-idx1-ubyte.gz", bytes_of(folder_ / "labels"));
  const DataSplit split = load(folder_, 1, 1);
  EXPECT_EQ(split.train.size(), 6U);
  EXPECT_EQ(split.test.size(), 2U);
  EXPECT_EQ(split.classes, 5U);
  EXPECT_EQ(split.train.shape, (ImageShape{1, 4, 3}));
  EXPECT_NEAR(split.mean, 35.5 / 255, 1e-6);
  EXPECT_EQ(split.train.image(1)[0], 12);

  write_idx(folder_ / "train-labels-idx1-ubyte", {{5}, {0, 1, 2, 0, 1}});
  EXPECT_THAT(refusal([&] { load(folder_, 1, 1); }), AllOf(HasSubstr("expected 6 labels"), HasSubstr("found 5")));
  EXPECT_THAT(refusal([&] { load(folder_ / "nowhere", 1, 1); }),
              AllOf(HasSubstr("no such data folder"), HasSubstr("tutti data optdigits")));
}

TEST_F(DataTest, RandomImagesAreTheSameForTheSameSeed) {
  const DataSplit a = load("random:2x5x4", 30, 9), b = load("random:2x5x4", 30, 9), c = load("random:2x5x4", 30, 8);
  EXPECT_EQ(a.train.pixels, b.train.pixels);
  EXPECT_NE(a.train.pixels, c.train.pixels);
  EXPECT_EQ(a.train.shape, (ImageShape{2, 5, 4}));
  EXPECT_THAT(a.description, HasSubstr("random"));
  for (const char* bad :
       {"random:", "random:1x28", "random:1x28x28x3", "random:1x0x4", "random:axbxc", "random:1x-2x4"})
    EXPECT_THAT(refusal([&] { load(bad, 30, 1); }), HasSubstr("random:1x28x28")) << bad;
}

Dataset ramp() { return {{1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 1}}; }

TEST(Transform, WithoutShiftNormalises) {
  const Dataset data = ramp();
  std::vector<float> out(9);
  Transform{.mean = 0.01F, .deviation = 0.5F}.apply(data, 0, 0, out.data());
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(out[i], (static_cast<float>(i + 1) / 255 - 0.01F) / 0.5F, 1e-6);
}

TEST(Transform, ShiftsByWholePixelsAndReachesAllPlaces) {
  const Dataset data = ramp();
  std::set<std::pair<int, int>> moves;
  for (std::size_t epoch = 0; epoch < 100; ++epoch) {
    std::vector<float> out(9), again(9);
    const Transform transform{.shift = 1, .seed = 5};
    transform.apply(data, 0, epoch, out.data());
    transform.apply(data, 0, epoch, again.data());
    EXPECT_EQ(out, again);
    // The centre, 5, cannot leave the image: it tells the move.
    const auto centre = std::find_if(out.begin(), out.end(), [](float v) { return std::lround(v * 255) == 5; });
    ASSERT_NE(centre, out.end());
    const int at = static_cast<int>(centre - out.begin()), down = at / 3 - 1, right = at % 3 - 1;
    moves.emplace(down, right);
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 3; ++x) {
        const int from_y = y - down, from_x = x - right;
        const bool inside = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 3;
        EXPECT_EQ(std::lround(out[static_cast<std::size_t>(3 * y + x)] * 255), inside ? 3 * from_y + from_x + 1 : 0);
      }
  }
  EXPECT_EQ(moves.size(), 9U);
}

/// Everything an epoch yields, by sample order.
std::vector<float> epoch_pixels(const Dataset& data, int size, std::size_t epoch,
                                std::vector<std::size_t>* counts = {}) {
  std::vector<std::vector<Batch>> by_rank;
  for (int r = 0; r < size; ++r) {
    Loader loader(data, Sampler({.samples = data.size(), .batch = 8, .rank = r, .size = size, .seed = 1}),
                  {.shift = 1, .seed = 1}, 3);
    loader.start_epoch(epoch);
    by_rank.emplace_back();
    while (auto batch = loader.next()) by_rank.back().push_back(std::move(*batch));
    EXPECT_FALSE(loader.next().has_value());
  }
  std::vector<float> all;
  for (std::size_t step = 0; step < by_rank[0].size(); ++step)
    for (auto& batches : by_rank) {
      EXPECT_EQ(batches[step].step, step);
      EXPECT_EQ(batches[step].labels.size(), batches[step].count);
      if (counts) counts->push_back(batches[step].count);
      all.insert(all.end(), batches[step].pixels.begin(), batches[step].pixels.end());
    }
  return all;
}

TEST(Loader, GivesTheSameImagesWhateverTheNumberOfRanks) {
  const Dataset data = random_split("1x4x4", 29, 1).train;
  const auto alone = epoch_pixels(data, 1, 3);
  EXPECT_EQ(alone.size(), 29U * 16);
  for (int size : {2, 3, 5}) EXPECT_EQ(epoch_pixels(data, size, 3), alone) << size;
  EXPECT_NE(epoch_pixels(data, 1, 4), alone);
  std::vector<std::size_t> counts;
  epoch_pixels(data, 3, 0, &counts);
  EXPECT_EQ(counts, (std::vector<std::size_t>{3, 3, 2, 3, 3, 2, 3, 3, 2, 2, 2, 1}));
}

TEST(Loader, CanBeRestartedAndDroppedInMidEpoch) {
  const Dataset data = random_split("1x4x4", 100, 1).train;
  Loader loader(data, Sampler({.samples = 100, .batch = 1}), {}, 2);
  for (std::size_t epoch = 0; epoch < 20; ++epoch) {
    loader.start_epoch(epoch);
    for (std::size_t i = 0; i < epoch; ++i) EXPECT_EQ(loader.next()->step, i);
  }
}

}  // namespace
}  // namespace tutti::engine
