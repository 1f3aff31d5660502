// Transforms and the loader: from a data set's samples to batches.
#include "engine/data/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>

#include "engine/data/formats/source.hpp"
#include "tests/support/refusal.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

/// 3x3: 1 to 9.
Sample ramp() { return {{"image", Array(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3})}}; }

Array changed(const Transform& transform, Sample sample, const Draw& draw = {}) {
  transform(sample, draw);
  return std::as_const(sample)["image"];
}

TEST(Transform, NormalisesBytesAndNumbers) {
  const Array out = changed(normalise("image", {0.01F}, {0.5F}), ramp());
  EXPECT_EQ(out.shape(), (ArrayShape{1, 3, 3}));
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(out.as<float>()[i], (static_cast<float>(i + 1) / 255 - 0.01F) / 0.5F, 1e-6);
  const Sample two{{"image", Array(std::vector<double>{3, 3, 5, 5}, {2, 1, 2})}};
  EXPECT_THAT(changed(normalise("image", {1, 2}, {1, 3}), two).as<float>(), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(refusal([&] { changed(normalise("image", {1, 2, 3}, {1, 3, 3}), two); }), HasSubstr("3 means"));
}

TEST(Transform, ShiftsByWholePixelsAndReachesAllPlaces) {
  std::set<std::pair<int, int>> moves;
  const Transform move = shift("image", 1);
  for (std::size_t epoch = 0; epoch < 100; ++epoch) {
    const Draw draw{.seed = 5, .epoch = epoch};
    const Array moved = changed(move, ramp(), draw), again = changed(move, ramp(), draw);
    const auto out = moved.as<std::uint8_t>();
    EXPECT_TRUE(std::ranges::equal(out, again.as<std::uint8_t>()));
    // The centre pixel, 5, cannot leave the image, so its position shows by how much the image was moved.
    const auto centre = std::find(out.begin(), out.end(), 5);
    ASSERT_NE(centre, out.end());
    const int at = static_cast<int>(centre - out.begin()), down = at / 3 - 1, right = at % 3 - 1;
    moves.emplace(down, right);
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 3; ++x) {
        const int from_y = y - down, from_x = x - right;
        const bool inside = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 3;
        EXPECT_EQ(out[static_cast<std::size_t>(3 * y + x)], inside ? 3 * from_y + from_x + 1 : 0);
      }
  }
  EXPECT_EQ(moves.size(), 9U);
}

TEST(Transform, CropsAnywhereAndInTheMiddle) {
  std::set<std::vector<std::uint8_t>> windows;
  for (SampleId id = 0; id < 300; ++id) {
    const Array out = changed(random_crop("image", 2, 2, 1), ramp(), {.seed = 1, .sample = id});
    EXPECT_EQ(out.shape(), (ArrayShape{1, 2, 2}));
    windows.emplace(out.as<std::uint8_t>().begin(), out.as<std::uint8_t>().end());
  }
  EXPECT_EQ(windows.size(), 16U);  // tops and lefts from -1 to 2, so 4 x 4
  EXPECT_TRUE(windows.count({0, 0, 0, 1}));
  EXPECT_TRUE(windows.count({9, 0, 0, 0}));
  EXPECT_THAT(changed(centre_crop("image", 1, 1), ramp()).as<std::uint8_t>(), ElementsAre(5));
  EXPECT_THAT(refusal([] { changed(random_crop("image", 4, 4), ramp()); }),
              AllOf(HasSubstr("u8 of 1x3x3"), HasSubstr("too small for a window of 4x4")));
}

TEST(Transform, MirrorsHalfOfTheTime) {
  int mirrored = 0;
  for (SampleId id = 0; id < 1000; ++id) {
    const auto first = changed(mirror("image"), ramp(), {.sample = id}).as<std::uint8_t>()[0];
    ASSERT_TRUE(first == 1 || first == 3);
    mirrored += first == 3;
  }
  EXPECT_NEAR(mirrored, 500, 80);
}

TEST(Transform, MayChooseOnceForABatch) {
  const Transform crop = random_crop("image", 2, 2, 1, Per::batch);
  std::set<std::uint8_t> lasts;
  for (std::size_t step = 0; step < 50; ++step) {
    const std::uint8_t last = changed(crop, ramp(), {.step = step, .sample = 0}).as<std::uint8_t>()[3];
    for (SampleId id = 1; id < 5; ++id)
      EXPECT_EQ(changed(crop, ramp(), {.step = step, .sample = id}).as<std::uint8_t>()[3], last);
    lasts.insert(last);
  }
  EXPECT_GT(lasts.size(), 5U);
}

TEST(Transform, ChecksLabels) {
  Sample sample{{"label", Array::scalar(std::uint8_t{9})}};
  check_label("label", 10)(sample, {});
  EXPECT_EQ(sample["label"].item<std::int64_t>(), 9);
  EXPECT_THAT(refusal([&] { check_label("label", 9)(sample, {}); }),
              HasSubstr("'label' is 9: expected a class from 0 to 8"));
  Sample odd{{"label", Array::scalar(1.5F)}};
  EXPECT_THAT(refusal([&] { check_label("label", 9)(odd, {}); }), HasSubstr("expected an integer, found f32"));
}

/// Returns all pixels of an epoch, in the order of the samples.
std::vector<float> epoch_pixels(const DataSplit& data, int size, std::size_t epoch, std::size_t threads = 1,
                                std::vector<std::size_t>* counts = {}) {
  std::vector<std::vector<Batch>> by_rank;
  std::vector<Transform> transforms = data.preparation();
  transforms.insert(transforms.begin(), shift("image", 1));
  for (int r = 0; r < size; ++r) {
    Loader loader(data.train, Sampler({.samples = data.train->size(), .batch = 8, .rank = r, .size = size, .seed = 1}),
                  transforms, {.depth = 3, .threads = threads, .seed = 1});
    loader.start_epoch(epoch);
    by_rank.emplace_back();
    while (auto batch = loader.next()) by_rank.back().push_back(std::move(*batch));
    EXPECT_FALSE(loader.next().has_value());
  }
  std::vector<float> all;
  for (std::size_t step = 0; step < by_rank[0].size(); ++step)
    for (const auto& batches : by_rank) {
      const Batch& batch = batches[step];
      EXPECT_EQ(batch.step, step);
      EXPECT_EQ(batch["label"].as<std::int64_t>().size(), batch.count);
      EXPECT_EQ(batch.weights, std::vector<float>(batch.count, 1.0F));
      EXPECT_THAT(batch.pieces, ElementsAre(batch.count));
      if (counts) counts->push_back(batch.count);
      const auto pixels = batch["image"].as<float>();
      all.insert(all.end(), pixels.begin(), pixels.end());
    }
  return all;
}

TEST(Loader, GivesTheSameImagesWhateverTheNumberOfRanksAndThreads) {
  const DataSplit data = load("random:1x4x4", 29, 1);
  const auto alone = epoch_pixels(data, 1, 3);
  EXPECT_EQ(alone.size(), 29U * 16);
  for (int size : {2, 3, 5})
    for (std::size_t threads : {1, 2, 4}) EXPECT_EQ(epoch_pixels(data, size, 3, threads), alone) << size;
  EXPECT_NE(epoch_pixels(data, 1, 4), alone);
  std::vector<std::size_t> counts;
  epoch_pixels(data, 3, 0, 1, &counts);
  EXPECT_EQ(counts, (std::vector<std::size_t>{3, 3, 2, 3, 3, 2, 3, 3, 2, 2, 2, 1}));
}

TEST(Loader, CanBeRestartedAndDroppedInMidEpoch) {
  const DataSplit data = load("random:1x4x4", 100, 1);
  Loader loader(data.train, Sampler({.samples = 100, .batch = 1}), {}, {.depth = 4, .threads = 3});
  for (std::size_t epoch = 0; epoch < 20; ++epoch) {
    loader.start_epoch(epoch);
    for (std::size_t i = 0; i < epoch; ++i) EXPECT_EQ(loader.next()->step, i);
  }
}

TEST(Loader, GoesOnWhereAnotherOneStopped) {
  const DataSplit data = load("random:1x4x4", 40, 1);
  const Sampler sampler({.samples = 40, .batch = 6, .seed = 3});
  Loader first(data.train, sampler, {}, {.depth = 3}), second(data.train, sampler, {}, {.depth = 2});
  first.start_epoch(2);
  first.next();
  first.next();
  second.resume(Progress::parse(first.progress().text()));
  for (std::size_t step = 2; step < 7; ++step) {
    const auto expected = first.next(), found = second.next();
    EXPECT_EQ(found->step, step);
    EXPECT_EQ(found->ids, expected->ids);
  }
  EXPECT_FALSE(second.next());
}

TEST(Loader, GivesARankWithoutSamplesEmptyArrays) {
  const DataSplit data = load("random:1x4x4", 5, 1);
  Loader loader(data.train, Sampler({.samples = 5, .batch = 4, .rank = 3, .size = 4}), {}, {});
  loader.start_epoch(0);
  loader.next();
  const std::optional<const Batch> last = loader.next();
  EXPECT_EQ(last->count, 0U);
  EXPECT_EQ(last->global_count, 1U);
  EXPECT_EQ((*last)["image"].shape(), (ArrayShape{0, 1, 4, 4}));
}

TEST(Loader, FlagsRepetitions) {
  const DataSplit data = load("random:1x4x4", 5, 1);
  Loader loader(data.train, Sampler({.samples = 5, .batch = 4, .rank = 1, .size = 2, .remainder = Remainder::pad}), {},
                {});
  loader.start_epoch(0);
  EXPECT_THAT(loader.next()->weights, ElementsAre(1, 1));
  const auto last = loader.next();
  EXPECT_THAT(last->weights, ElementsAre(0));
  EXPECT_EQ(last->global_count, 2U);
  EXPECT_EQ(last->global_distinct, 1U);
}

/// A data set of numbers, of which those in `bad` cannot be read.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::set<std::size_t> bad = {}) : bad_(std::move(bad)) {}
  std::size_t size() const override { return 60; }
  Sample get(std::size_t i) const override {
    if (bad_.count(i)) throw std::runtime_error("disk on fire");
    return {{"x", Array::scalar(static_cast<std::int64_t>(i))}};
  }
  void expect(const Coming& coming) const override {
    expected_.clear();
    coming([this](SampleId id) { expected_.push_back(id); });
  }
  const std::vector<SampleId>& expected() const { return expected_; }

 private:
  std::set<std::size_t> bad_;
  mutable std::vector<SampleId> expected_;
};

TEST(Loader, SaysWhichSampleCouldNotBeReadAfterTheBatchesBeforeIt) {
  for (const std::size_t threads : {1, 2, 4})
    for (int again = 0; again < 20; ++again) {
      const auto data = std::make_shared<Numbers>(std::set<std::size_t>{23, 31, 55});
      Loader loader(data, Sampler({.samples = 60, .batch = 5, .shuffled = false}), {},
                    {.depth = 5, .threads = threads});
      loader.start_epoch(0);
      for (std::size_t step = 0; step < 4; ++step) EXPECT_EQ(loader.next()->step, step);
      for (int twice = 0; twice < 2; ++twice) try {
          loader.next();
          ADD_FAILURE() << "nothing was thrown";
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "sample 23: disk on fire");
        }
    }
}

TEST(Loader, TellsTheDataSetWhatIsComing) {
  const auto data = std::make_shared<Numbers>();
  const Sampler sampler({.samples = 60, .batch = 10, .rank = 1, .size = 2, .seed = 1});
  Loader loader(data, sampler, {}, {});
  loader.start_epoch(0);
  EXPECT_EQ(data->expected().size(), 30U);
  EXPECT_EQ(data->expected()[5], sampler.local(1)[0]);
}

TEST(Loader, IsAheadByItsDepthAndNoMore) {
  std::atomic<int> made{0};
  Loader loader(std::make_shared<Numbers>(), Sampler({.samples = 60, .batch = 1}),
                {[&](Sample&, const Draw&) { ++made; }}, {.depth = 3, .threads = 2});
  loader.start_epoch(0);
  for (int taken = 0; taken < 20; ++taken) {
    while (made < taken + 3) std::this_thread::yield();
    EXPECT_EQ(made, taken + 3);
    loader.next();
  }
}

TEST(Loader, ReadsSeveralBatchesAtOnce) {
  /// Returns no sample until two threads have asked for one.
  class Pairs : public Dataset {
    std::size_t size() const override { return 8; }
    Sample get(std::size_t i) const override {
      ++asked_;
      while (asked_ < 2) std::this_thread::yield();
      return {{"x", Array::scalar(static_cast<std::int64_t>(i))}};
    }
    mutable std::atomic<int> asked_{0};
  };
  Loader loader(std::make_shared<Pairs>(), Sampler({.samples = 8, .batch = 1, .shuffled = false}), {},
                {.depth = 2, .threads = 2});
  loader.start_epoch(0);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ((*loader.next())["x"].item<std::int64_t>(), i);
}

TEST(Loader, SendsInOrder) {
  const auto data = std::make_shared<Numbers>();
  std::size_t sent = 0;
  Loader loader(data, Sampler({.samples = 60, .batch = 2}), {}, {.depth = 4, .threads = 4},
                [&](Batch& batch) { EXPECT_EQ(batch.step, sent++); });
  loader.start_epoch(0);
  while (loader.next()) {
  }
  EXPECT_EQ(sent, 30U);
}

TEST(Loader, StacksOnlyWhatIsAlike) {
  class Growing : public Dataset {
    std::size_t size() const override { return 9; }
    Sample get(std::size_t i) const override { return {{"x", Array(std::vector<float>(i + 1))}}; }
  };
  const SampleId ids[] = {4, 7};
  EXPECT_THAT(refusal([&] { collate(Growing(), ids, {}); }),
              AllOf(HasSubstr("sample 7: 'x' is f32 of 8"), HasSubstr("sample 4 f32 of 5")));
}

TEST(SampleStream, IsTakenInBatchesUntilItsEnd) {
  class Ten : public SampleStream {
    std::optional<Sample> next() override {
      if (at_ == 10) return std::nullopt;
      return Sample{{"x", Array::scalar(at_++)}};
    }
    std::int64_t at_ = 0;
  } stream;
  const Batch first = collate(stream, 6, {});
  EXPECT_THAT(first["x"].as<std::int64_t>(), ElementsAre(0, 1, 2, 3, 4, 5));
  const Batch second = collate(stream, 6, {}, {.sample = 6});
  EXPECT_THAT(second["x"].as<std::int64_t>(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(second.ids, ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(collate(stream, 6, {}).count, 0U);
}

}  // namespace
}  // namespace tutti::engine
