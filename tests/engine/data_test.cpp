// Arrays, IDX files and folders, random data, and the text of data=.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "engine/data/formats/idx.hpp"
#include "engine/data/formats/source.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
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

Array some_images(std::int64_t count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * 12);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return Array(std::move(bytes), {count, 4, 3});
}

Array bytes(std::vector<std::uint8_t> values) { return Array(std::move(values)); }

TEST_F(DataTest, IdxComesBackPlainAndGzipped) {
  const Array images = some_images(5);
  write_idx(folder_ / "plain", images);
  const fs::path gzipped = write_gzip("packed.gz", bytes_of(folder_ / "plain"));
  for (const fs::path& file : {folder_ / "plain", gzipped}) {
    const Array back = read_idx(file, 3);
    EXPECT_EQ(back.shape(), images.shape());
    EXPECT_THAT(back.as<std::uint8_t>(), ElementsAreArray(images.as<std::uint8_t>()));
  }
}

TEST_F(DataTest, IdxErrorsNameFileExpectedAndFound) {
  write_idx(folder_ / "good", some_images(5));
  const std::vector<std::uint8_t> good = bytes_of(folder_ / "good");

  auto shorter = good;
  shorter.resize(good.size() - 7);
  EXPECT_THAT(refusal([&] { read_idx(write("short", shorter), 3); }),
              AllOf(HasSubstr("short: expected 60 bytes"), HasSubstr("found 53")));
  auto longer = good;
  longer.push_back(0);
  EXPECT_THAT(refusal([&] { read_idx(write("long", longer), 3); }), HasSubstr("expected 60 bytes"));
  EXPECT_THAT(refusal([&] { read_idx(write("stub", {0, 0, 8}), 3); }), HasSubstr("header of 16 bytes, found 3"));
  EXPECT_THAT(refusal([&] { read_idx(folder_ / "good", 1); }), HasSubstr("00 00 08 01, found 00 00 08 03"));
  EXPECT_THAT(refusal([&] { read_idx(folder_ / "absent", 3); }), HasSubstr("absent: cannot be opened"));
  const std::vector<std::uint8_t> huge{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  EXPECT_THAT(refusal([&] { read_idx(write("huge", huge), 3); }), HasSubstr("impossible size"));

  const fs::path packed = write_gzip("packed.gz", good);
  auto cut = bytes_of(packed);
  cut.resize(cut.size() - 12);
  EXPECT_THAT(refusal([&] { read_idx(write("cut.gz", cut), 3); }), HasSubstr("cut.gz: is not a whole gzip file"));
  EXPECT_THAT(refusal([&] { read_whole(folder_ / "cut.gz"); }), HasSubstr("cut.gz: is not a whole gzip file"));
  auto corrupt = bytes_of(packed);
  corrupt[corrupt.size() / 2] ^= 0x55;
  EXPECT_THAT(refusal([&] { read_idx(write("corrupt.gz", corrupt), 3); }), HasSubstr("corrupt.gz"));
}

TEST_F(DataTest, FolderIsReadInMnistsLayout) {
  write_idx(folder_ / "train-images-idx3-ubyte", some_images(6));
  write_idx(folder_ / "train-labels-idx1-ubyte", bytes({0, 1, 2, 0, 1, 2}));
  write_idx(folder_ / "t10k-images-idx3-ubyte", some_images(2));
  write_idx(folder_ / "labels", bytes({1, 4}));
  EXPECT_THAT(refusal([&] { load(folder_, 1, 1); }),
              AllOf(HasSubstr("has no t10k-labels-idx1-ubyte[.gz]"), HasSubstr("tutti data optdigits")));
  write_gzip("t10k-labels-idx1-ubyte.gz", bytes_of(folder_ / "labels"));
  const DataSplit split = load(folder_, 1, 1);
  EXPECT_EQ(split.train->size(), 6U);
  EXPECT_EQ(split.test->size(), 2U);
  EXPECT_EQ(split.classes, 5U);
  EXPECT_EQ(split.image(), (ImageShape{1, 4, 3}));
  EXPECT_NEAR(split.mean[0], 35.5 / 255, 1e-6);
  EXPECT_EQ(split.train->get(1)["image"].as<std::uint8_t>()[0], 12);
  EXPECT_EQ(split.test->get(1)["label"].item<std::int64_t>(), 4);

  write_idx(folder_ / "train-labels-idx1-ubyte", bytes({0, 1, 2, 0, 1}));
  EXPECT_THAT(refusal([&] { load(folder_, 1, 1); }), AllOf(HasSubstr("expected 6 labels"), HasSubstr("found 5")));
  EXPECT_THAT(refusal([&] { load(folder_ / "nowhere", 1, 1); }),
              AllOf(HasSubstr("no such data folder"), HasSubstr("tutti data optdigits")));
}

std::vector<std::byte> all_bytes(const DataSplit& split, const std::string& field) {
  const auto found = dynamic_cast<const ArrayDataset&>(*split.train).columns()[field].bytes();
  return {found.begin(), found.end()};
}

TEST(RandomData, IsTheSameForTheSameSeed) {
  const DataSplit a = load("random:2x5x4", 30, 9), b = load("random:2x5x4", 30, 9), c = load("random:2x5x4", 30, 8);
  EXPECT_EQ(all_bytes(a, "image"), all_bytes(b, "image"));
  EXPECT_NE(all_bytes(a, "image"), all_bytes(c, "image"));
  EXPECT_EQ(a.image(), (ImageShape{2, 5, 4}));
  EXPECT_EQ(a.mean.size(), 2U);
  EXPECT_THAT(a.description, HasSubstr("random"));
}

TEST(RandomData, HasEveryShapeAndTarget) {
  const DataSplit vector = load("random:6,classes=3,samples=16", 30, 1);
  EXPECT_EQ(vector.train->size(), 16U);
  EXPECT_EQ(vector.test->size(), 2U);
  EXPECT_EQ(vector.classes, 3U);
  const Sample sample = vector.train->get(4);
  EXPECT_EQ(sample["input"].shape(), ArrayShape{6});
  EXPECT_EQ(sample["label"].item<std::int64_t>(), 1);
  for (const float value : sample["input"].as<float>()) EXPECT_LE(std::abs(value), 1);
  EXPECT_THAT(refusal([&] { vector.image(); }), AllOf(HasSubstr("f32 of 6"), HasSubstr("random:1x28x28")));

  const DataSplit regression = load("random:3x2x2x2,target=4", 30, 1);
  EXPECT_EQ(regression.classes, 0U);
  EXPECT_EQ(regression.train->get(0)["target"].shape(), ArrayShape{4});
  EXPECT_EQ(regression.train->get(0)["input"].shape(), (ArrayShape{3, 2, 2, 2}));
}

TEST(RandomData, RefusesWhatIsNoShape) {
  for (const char* bad : {"random:", "random:1x0x4", "random:axbxc", "random:1x-2x4", "random:1x2x", "random:1,2"})
    EXPECT_THAT(refusal([&] { load(bad, 30, 1); }), HasSubstr("random:1x28x28")) << bad;
}

TEST(Source, ErrorsListWhatThereIs) {
  EXPECT_THAT(refusal([] { load("rnadom:1x2x2", 1, 1); }),
              AllOf(HasSubstr("no kind of data 'rnadom'"), HasSubstr("random:SHAPE"), HasSubstr("idx:DIR")));
  EXPECT_THAT(refusal([] { load("random:4,clases=3", 1, 1); }),
              AllOf(HasSubstr("no option 'clases'"), HasSubstr("samples, classes, target")));
  EXPECT_THAT(refusal([] { load("random:4,classes=many", 1, 1); }), HasSubstr("classes=many"));
}

TEST(Array, SharesItsMemory) {
  const Array whole(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  const Array row = whole.row(2), two = whole.rows(1, 2);
  EXPECT_EQ(row.shape(), ArrayShape{2});
  EXPECT_EQ(row.as<float>().data(), whole.as<float>().data() + 4);
  EXPECT_THAT(two.reshaped({4}).as<float>(), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(Array::scalar(std::int32_t{7}).item<std::int32_t>(), 7);
  EXPECT_EQ(Array().count(), 0U);
}

TEST(Array, ConvertsAmongAllTypes) {
  const Array numbers(std::vector<std::int32_t>{0, 3, 100});
  for (int i = 0; i < dtype_count; ++i) {
    const Array other = numbers.converted(static_cast<DType>(i));
    EXPECT_EQ(other.dtype(), static_cast<DType>(i));
    EXPECT_THAT(other.converted(DType::i64).as<std::int64_t>(), ElementsAre(0, 3, 100)) << other.describe();
  }
}

TEST(Array, ErrorsNameExpectedAndFound) {
  const Array array(std::vector<float>(6), {3, 2});
  EXPECT_THAT(refusal([&] { array.as<std::uint8_t>(); }), AllOf(HasSubstr("array of u8"), HasSubstr("f32 of 3x2")));
  EXPECT_THAT(refusal([&] { array.item<float>(); }), AllOf(HasSubstr("1 element"), HasSubstr("f32 of 3x2")));
  EXPECT_THAT(refusal([&] { array.row(3); }), HasSubstr("no rows 3"));
  EXPECT_THAT(refusal([&] { Array(std::vector<float>(5), {3, 2}); }), HasSubstr("f32 of 3x2"));
  EXPECT_THAT(refusal([&] { array.without_memory().as<float>(); }), HasSubstr("not in the memory of the host"));
  EXPECT_THAT(refusal([] { elements({1 << 30, 1 << 30, 4}); }), HasSubstr("impossible"));
  const Sample sample{{"image", array}, {"label", Array::scalar(1.0F)}};
  EXPECT_THAT(refusal([&] { sample["lable"]; }), AllOf(HasSubstr("'lable'"), HasSubstr("'image', 'label'")));
  EXPECT_THAT(refusal([&] {
                ArrayDataset({{"a", array}, {"b", Array(std::vector<float>(2))}});
              }),
              AllOf(HasSubstr("'b' has 2 rows"), HasSubstr("'a' 3")));
}

}  // namespace
}  // namespace tutti::engine
