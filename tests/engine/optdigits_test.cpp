// `tutti data optdigits`: conversion, split and errors; also downloads the real data set if apt can reach a mirror.
#include "tools/data/optdigits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <map>
#include <set>

#include "engine/data/formats/source.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OptdigitsTest : public ::testing::Test {
 protected:
  /// `count` images of each class, whose first pixels are their number.
  fs::path write_csv(int count, const std::string& last_line = {}) const {
    const fs::path file = folder_ / "digits.csv.gz";
    gzFile out = gzopen(file.c_str(), "wb");
    for (int i = 0; i < count * 10; ++i) {
      const int number = i / 10;
      std::string line = std::to_string(number % 17) + "," + std::to_string(number / 17 % 17);
      for (int pixel = 2; pixel < 64; ++pixel) line += ",16";
      line += "," + std::to_string(i % 10) + "\n";
      gzputs(out, line.c_str());
    }
    gzputs(out, last_line.c_str());
    gzclose(out);
    return file;
  }

  std::string refusal(const fs::path& csv) const {
    try {
      read_digits(csv);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      return error.what();
    }
    return "nothing was thrown";
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

std::map<int, int> by_class(const DigitImages& data) {
  std::map<int, int> counts;
  for (const auto label : data.labels) ++counts[label];
  return counts;
}

TEST_F(OptdigitsTest, HoldsOutAFifthOfEachClass) {
  const Digits digits = read_digits(write_csv(50));
  for (const auto& [label, count] : by_class(digits.test)) EXPECT_EQ(count, 10) << label;
  for (const auto& [label, count] : by_class(digits.train)) EXPECT_EQ(count, 40) << label;
  EXPECT_EQ(digits.train.image(0)[5], 255);
}

TEST_F(OptdigitsTest, SplitIsAlwaysTheSameAndLosesNothing) {
  const fs::path csv = write_csv(30);
  const Digits a = read_digits(csv), b = read_digits(csv);
  EXPECT_EQ(a.test.pixels, b.test.pixels);
  std::multiset<std::pair<int, int>> seen;
  for (const auto* part : {&a.train, &a.test})
    for (std::size_t i = 0; i < part->size(); ++i)
      seen.emplace(part->labels[i], (part->image(i)[0] * 16 + 127) / 255 + 17 * ((part->image(i)[1] * 16 + 127) / 255));
  std::multiset<std::pair<int, int>> all;
  for (int label = 0; label < 10; ++label)
    for (int number = 0; number < 30; ++number) all.emplace(label, number);
  EXPECT_EQ(seen, all);
}

TEST_F(OptdigitsTest, WritesAFolderThatTheLoaderReads) {
  const Digits digits = read_digits(write_csv(20));
  write_digits(digits, folder_ / "out" / "digits");
  const engine::DataSplit split = engine::load(folder_ / "out" / "digits", 1, 1);
  ASSERT_EQ(split.train->size(), digits.train.size());
  for (std::size_t i = 0; i < digits.train.size(); ++i) {
    const auto pixels = split.train->get(i)["image"].as<std::uint8_t>();
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), digits.train.image(i).begin())) << i;
  }
  for (std::size_t i = 0; i < digits.test.size(); ++i)
    EXPECT_EQ(split.test->get(i)["label"].item<std::int64_t>(), digits.test.labels[i]);
  EXPECT_EQ(split.classes, 10U);
  std::ifstream readme(folder_ / "out" / "digits" / "README.txt");
  const std::string text{std::istreambuf_iterator<char>(readme), {}};
  EXPECT_THAT(
      text, AllOf(HasSubstr("Alpaydin"), HasSubstr("CC BY 4.0"), HasSubstr("160 training"), HasSubstr("40 held-out")));
}

TEST_F(OptdigitsTest, LeavesNothingHalfWritten) {
  const Digits digits = read_digits(write_csv(20));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(write_digits(digits, folder_ / "file"), Error);
  EXPECT_THROW(write_digits(digits, folder_ / "file" / "below"), Error);
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename(), ::testing::AnyOf("file", "digits.csv.gz"));
}

TEST_F(OptdigitsTest, NamesTheLineThatIsWrong) {
  EXPECT_THAT(refusal(write_csv(2, "1,2,3\n")), HasSubstr("digits.csv.gz:21: expected 64 values"));
  std::string bright = "17";
  for (int i = 1; i < 64; ++i) bright += ",0";
  EXPECT_THAT(refusal(write_csv(0, bright + ",1\n")), HasSubstr(":1: "));
  EXPECT_THAT(refusal(write_csv(0)), HasSubstr("is empty"));
  const fs::path cut = write_csv(2);
  fs::resize_file(cut, fs::file_size(cut) / 2);
  EXPECT_THAT(refusal(cut), HasSubstr("is not a whole gzip file"));
  EXPECT_THAT(refusal(folder_ / "absent"), HasSubstr("cannot be opened"));
}

TEST_F(OptdigitsTest, FetchesTheRealDigits) {
  fs::path csv;
  try {
    csv = fetch_digits(folder_);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource);
    EXPECT_THAT(error.what(), HasSubstr("--from"));
    GTEST_SKIP() << "the package cannot be fetched here: " << error.what();
  }
  const Digits digits = read_digits(csv);
  EXPECT_EQ(digits.train.size() + digits.test.size(), 1797U);
  EXPECT_EQ(digits.test.size(), 359U);
  const std::map<int, int> classes = by_class(digits.test);
  EXPECT_EQ(classes.size(), 10U);
  for (const auto& [label, count] : classes) EXPECT_NEAR(count, 36, 1) << label;
}

}  // namespace
}  // namespace tutti::tools
