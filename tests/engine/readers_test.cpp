// CIFAR, CSV, NPY and text: what the readers read, and their error texts for wrong files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/data/formats/npy.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/data/random.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

class ReadersTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

DataSplit load(const std::string& text) { return engine::load(text, 1, 1); }

/// CIFAR records: record i has the labels labels[i], and then an image all of whose bytes are i.
std::string cifar(std::vector<std::vector<int>> labels) {
  std::string text;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (const int label : labels[i]) text += static_cast<char>(label);
    text += std::string(3072, static_cast<char>(i));
  }
  return text;
}

TEST_F(ReadersTest, Cifar10) {
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", cifar({{i}, {9}}));
  write("cifar-10-batches-bin/test_batch.bin", cifar({{0}}));
  const DataSplit split = load("cifar10:" + folder_.string());
  EXPECT_EQ(split.train->size(), 10U);
  EXPECT_EQ(split.test->size(), 1U);
  EXPECT_EQ(split.classes, 10U);
  EXPECT_EQ(split.image(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(split.mean.size(), 3U);
  const Sample sample = split.train->get(5);  // the second sample of the third file
  EXPECT_EQ(sample["label"].item<std::int64_t>(), 9);
  EXPECT_EQ(sample["image"].as<std::uint8_t>()[3071], 1);

  write("data_batch_4.bin", cifar({{1}, {2}}).substr(0, 5000));
  EXPECT_THAT(refusal([&] { load("cifar10:" + folder_.string()); }),
              AllOf(HasSubstr("data_batch_4.bin: expected a multiple of 3073 bytes, found 5000")));
  write("data_batch_4.bin", cifar({{1}, {10}}));
  EXPECT_THAT(refusal([&] { load("cifar10:" + folder_.string()); }),
              AllOf(HasSubstr("data_batch_4.bin: the label of image 1 is 10: expected 0 to 9")));
  fs::remove(folder_ / "data_batch_4.bin");
  EXPECT_THAT(refusal([&] { load("cifar10:" + folder_.string()); }), HasSubstr("has no data_batch_4.bin"));
}

TEST_F(ReadersTest, Cifar100HasCoarseLabelsToo) {
  write("train.bin", cifar({{19, 99}, {3, 50}}));
  write("test.bin", cifar({{0, 0}}));
  const DataSplit split = load("cifar100:" + folder_.string());
  EXPECT_EQ(split.classes, 100U);
  EXPECT_EQ(split.train->get(0)["label"].item<std::int64_t>(), 99);
  EXPECT_EQ(split.train->get(0)["coarse"].item<std::int64_t>(), 19);
}

TEST_F(ReadersTest, CsvWithNamesAndClasses) {
  const std::string train = write("train.csv", "kind,height,width\n0,1.5,2\n2,-1,\"3\"\r\n\n1,0,1e3\n");
  const std::string test = write("test.csv", "kind,height,width\n1,1,1\n");
  const DataSplit split = load("csv:" + train + "," + test + ",label=kind");
  EXPECT_EQ(split.train->size(), 3U);
  EXPECT_EQ(split.classes, 3U);
  EXPECT_EQ(split.inputs, std::vector<std::string>{"features"});
  const Sample sample = split.train->get(1);
  EXPECT_THAT(sample["features"].as<float>(), ElementsAre(-1, 3));
  EXPECT_EQ(sample["label"].item<std::int64_t>(), 2);
}

TEST_F(ReadersTest, CsvWithTargetsHoldsATenthOut) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i) + "," + std::to_string(i) + ".5\n";
  const std::string file = write("numbers.csv", text);
  const DataSplit split = load("csv:" + file);
  EXPECT_EQ(split.train->size(), 36U);
  EXPECT_EQ(split.test->size(), 4U);
  EXPECT_EQ(split.classes, 0U);
  const Sample sample = split.test->get(2);
  EXPECT_EQ(sample["target"].as<float>()[0], sample["features"].as<float>()[0] + 0.5F);
  EXPECT_EQ(load("csv:" + file + ",label=1,regression").classes, 0U);
  EXPECT_EQ(load("csv:" + file + ",label=1").classes, 40U);
}

TEST_F(ReadersTest, CsvErrorsNameTheLine) {
  const auto says = [&](const std::string& text, const std::string& options = "") {
    const std::string file = write("bad.csv", text);
    return refusal([&] { load("csv:" + file + options); });
  };
  EXPECT_THAT(says("1,2,0\n3,4,1\n5,6\n"), HasSubstr("bad.csv:3: expected 3 values, found 2"));
  EXPECT_THAT(says("1,2,0\n3,four,1\n"), HasSubstr("bad.csv:2: column 2: 'four' is no number"));
  EXPECT_THAT(says("1,2,0\n3,4,-1\n"), HasSubstr("bad.csv: the label of sample 1 is -1: expected 0 or more"));
  EXPECT_THAT(says("1,2,0\n3,4,7\n", ",classes=5"), HasSubstr("sample 1 is 7: expected 0 to 4"));
  EXPECT_THAT(says("a,b\n1,2\n", ",label=c"), HasSubstr("bad.csv:1: no column 'c'"));
  EXPECT_THAT(says("\n"), HasSubstr("bad.csv: holds no samples"));
  EXPECT_THAT(refusal([] { load("csv:nowhere.csv"); }), HasSubstr("nowhere.csv: cannot be opened"));
}

TEST_F(ReadersTest, NpyComesBackInEveryType) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bf16) continue;
    const Array array = Array(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {3, 2}).converted(dtype);
    write_npy(folder_ / "x.npy", array);
    const Array back = read_npy(folder_ / "x.npy");
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), array.shape());
    EXPECT_TRUE(std::ranges::equal(back.bytes(), array.bytes())) << array.describe();
  }
  // As numpy.save(file, numpy.array([True, False])) writes it.
  std::string header = "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  write("b.npy", std::string("\x93NUMPY\x01\x00v\x00", 10) + header + "\n" + std::string("\1\0", 2));
  EXPECT_THAT(read_npy(folder_ / "b.npy").as<std::uint8_t>(), ElementsAre(1, 0));
}

TEST_F(ReadersTest, NpyIsADataSet) {
  write_npy(folder_ / "x.npy", Array(std::vector<double>(36, 0.5), {3, 3, 4}));
  write_npy(folder_ / "y.npy", Array(std::vector<std::int16_t>{4, 0, 1}));
  const std::string x = folder_ / "x.npy", y = folder_ / "y.npy";
  const DataSplit split = load("npy:" + x + "," + y + "," + x + "," + y);
  EXPECT_EQ(split.test->size(), 3U);
  EXPECT_EQ(split.classes, 5U);
  EXPECT_EQ(split.train->get(0)["input"].describe(), "f64 of 3x4");
  EXPECT_EQ(split.train->get(0)["label"].item<std::int64_t>(), 4);
  write_npy(folder_ / "short.npy", Array(std::vector<std::int16_t>{4, 0}));
  EXPECT_THAT(refusal([&] { load("npy:" + x + "," + folder_.string() + "/short.npy"); }),
              HasSubstr("short.npy: expected 3 rows, one for each sample, found 2"));
  EXPECT_THAT(refusal([&] { load("npy:" + x); }), AllOf(HasSubstr("that is 1 value"), HasSubstr("X.npy,Y.npy")));
}

TEST_F(ReadersTest, NpyErrorsNameTheFile) {
  const auto header = [](std::string text) {
    text.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00v\x00", 10) + text + "\n";
  };
  const auto says = [&](const std::string& text) {
    const std::string file = write("bad.npy", text);
    return refusal([&] { read_npy(file); });
  };
  EXPECT_THAT(says("PK and more"), HasSubstr("bad.npy: is no NPY file"));
  EXPECT_THAT(says(header("{'descr': '<f4'").substr(0, 60)), HasSubstr("ends within its header"));
  EXPECT_THAT(says(header("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }")), HasSubstr("type '>f4'"));
  EXPECT_THAT(says(header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }")),
              HasSubstr("ascontiguousarray"));
  EXPECT_THAT(says(header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }") + "1234567"),
              HasSubstr("expected 8 bytes after the header, found 7"));
  EXPECT_THAT(says(header("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }")), HasSubstr("no shape"));
}

TEST_F(ReadersTest, TextGoesAcrossFilesAndTellsTheNextByte) {
  write("b.txt", "fghij");
  write("a.txt", "abcde");
  write("ignored.md", "xyz");
  const DataSplit split = load("text:" + folder_.string() + ",context=3");
  EXPECT_EQ(split.train->size(), 2U);
  EXPECT_EQ(split.test->size(), 1U);
  EXPECT_EQ(split.classes, 256U);
  const Sample across = split.train->get(1);
  EXPECT_THAT(across["input"].as<std::int64_t>(), ElementsAre('d', 'e', 'f'));
  EXPECT_THAT(across["target"].as<std::int64_t>(), ElementsAre('e', 'f', 'g'));
  EXPECT_THAT(split.test->get(0)["target"].as<std::int64_t>(), ElementsAre('h', 'i', 'j'));
  EXPECT_THAT(refusal([&] { load("text:" + folder_.string() + ",context=10"); }),
              AllOf(HasSubstr("10 bytes of text"), HasSubstr("context=N")));
  write("train/all.txt", "0123456789");
  write("test/all.txt", "01234");
  EXPECT_EQ(load("text:" + folder_.string() + ",context=4").test->size(), 1U);
  EXPECT_THAT(refusal([&] { load("text:nowhere"); }), HasSubstr("nowhere: no such data folder"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(refusal([&] { load("text:" + folder_.string() + "/empty"); }), HasSubstr("empty: has no files to read"));
}

/// Bytes change and files end early; a reader then reads something or says one line, and never crashes.
TEST_F(ReadersTest, CorruptFilesAreReadOrRefused) {
  write_npy(folder_ / "good.npy", Array(std::vector<float>(30, 0.5F), {6, 5}));
  std::ifstream in(folder_ / "good.npy", std::ios::binary);
  const std::string npy{std::istreambuf_iterator<char>(in), {}};
  const std::string csv = "a,b,c\n1,2,0\n3,4,1\n5,6,0\n";
  Random random(3);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = i % 2 ? npy : csv;
    for (std::uint64_t k = random.below(3); k < 3; ++k)
      text[random.below(std::min<std::size_t>(text.size(), 128))] = static_cast<char>(random.next());
    if (random.below(4) == 0) text.resize(random.below(text.size()));
    const std::string file = write("bad", text);
    try {
      if (i % 2)
        read_npy(file);
      else
        load("csv:" + file);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("bad"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace tutti::engine
