// Files that claim more than they contain, contain themselves, or refer to other files: the error texts, and the memory
// that reading takes. The files are those of tests/fuzz.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "engine/checkpoint/saver.hpp"
#include "engine/config.hpp"
#include "engine/config/documents.hpp"
#include "engine/data/formats/hdf5_file.hpp"
#include "engine/data/formats/idx.hpp"
#include "engine/data/formats/image_file.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/models/layers.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

const fs::path inputs = TUTTI_FUZZ;

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss >> 10;
}

struct Case {
  const char* file;  ///< in tests/fuzz
  std::function<void(const fs::path&)> open;
  const char* says;
};

#ifdef TUTTI_TEST_IMAGES
void open_image(const fs::path& file) { read_image(file, 3, 8, 8); }
#endif
#ifdef TUTTI_TEST_HDF5
void open_features(const fs::path& file) {
  const Hdf5File opened(file);
  for (const Hdf5Column& column : opened.columns("features")) opened.read(column, 0, 1);
}
void try_all(const fs::path& file) {
  Hdf5File::try_out(file, {}, {"/"});
  for (const Hdf5Column& column : Hdf5File(file).columns("/")) Hdf5File(file).read(column);
}
#endif
void open_layers(const fs::path& file) { read_layers(file); }
void open_yaml(const fs::path& file) { read_yaml(file); }
void open_safetensors(const fs::path& file) { read_arrays(file); }

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"corpus/yaml/cycle.yaml", open_yaml, ":2: has an alias within what it stands for"},
      {"corpus/yaml/bomb.yaml", open_yaml, ": has more than 100000 values"},
      {"corpus/yaml/deep.yaml", open_yaml, ":1: has more than 64 lists and maps within one another"},
      {"corpus/layers/cycle.yaml", open_layers, ":7: has an alias within what it stands for"},
      {"corpus/safetensors/dup.safetensors", open_safetensors, "twice"},
      {"corpus/safetensors/float.safetensors", open_safetensors, "whole numbers"},
      {"corpus/safetensors/neg.safetensors", open_safetensors, "whole numbers"},
#ifdef TUTTI_TEST_IMAGES
      {"corpus/png/claims_a.png", open_image, "pixels, more than it has bytes for"},
      {"corpus/png/claims_b.png", open_image, "pixels, more than it has bytes for"},
      {"corpus/jpeg/claims_a.jpg", open_image, "pixels, more than it has bytes for"},
      {"corpus/jpeg/claims_b.jpg", open_image, "pixels, more than it has bytes for"},
      {"corpus/jpeg/arithmetic.jpg", open_image, "is coded arithmetically"},
      {"corpus/png/long_row.png", open_image, "a side may have 1000000"},
#endif
#ifdef TUTTI_TEST_HDF5
      {"corpus/hdf5/cycle.h5", open_features, "more than 64 groups within one another"},
      {"corpus/hdf5/extlink.h5", open_features, "data.external_files=true"},
      {"corpus/hdf5/over.h5", open_features, "an impossible shape"},
      {"corpus/hdf5/sparse.h5", open_features, "but 0 are stored"},
      {"corpus/hdf5/sparse2.h5", open_features, "but 0 are stored"},
      {"slow/endless.h5", try_all, ""},
#endif
  };
  return all;
}

TEST(Claims, AreRefusedInALineThatNamesTheFile) {
  for (const Case& each : cases()) {
    const fs::path file = inputs / each.file;
    ASSERT_TRUE(fs::exists(file)) << file;
    const long before = peak_mib();
    EXPECT_THAT(refusal([&] { each.open(file); }), AllOf(HasSubstr(file.string()), HasSubstr(each.says)));
    EXPECT_LT(peak_mib() - before, 256) << each.file;
  }
}

#ifdef TUTTI_TEST_IMAGES
TEST(Claims, OfTextsInImagesAreNotLookedAt) {
  const long before = peak_mib();
  EXPECT_EQ(read_image(inputs / "corpus/png/texts.png", 1, 8, 8).shape(), (ArrayShape{1, 8, 8}));
  EXPECT_LT(peak_mib() - before, 8);
}
#endif

TEST(Claims, OfPackedFilesAreLimitsToo) {
  const testing::TemporaryFolder temporary;
  const fs::path file = temporary.path() + "/zeros.csv";
  gzFile out = gzopen(file.c_str(), "wb9");
  const std::string zeros(std::size_t{1} << 20, '0');
  for (int i = 0; i < 64; ++i) ASSERT_GT(gzwrite(out, zeros.data(), static_cast<unsigned>(zeros.size())), 0);
  gzclose(out);
  const long before = peak_mib();
  EXPECT_THAT(refusal([&] { load("csv:" + file.string(), 1, 1); }),
              AllOf(HasSubstr(file.string()), HasSubstr("unpacks to more than 100 times its size")));
  EXPECT_LT(peak_mib() - before, 256);
}

// Spreadsheets write a byte order mark at the beginning of a file, even if the file has no header.
TEST(ByteOrderMark, IsNoPartOfTheFirstSample) {
  const testing::TemporaryFolder temporary;
  const fs::path file = temporary.path() + "/a.csv";
  for (const char* mark : {"", "\xef\xbb\xbf"}) {
    std::ofstream(file) << mark << "1,2,0\n3,4,1\n5,6,0\n";
    const DataSplit split = load("csv:" + file.string() + "," + file.string(), 1, 1);
    ASSERT_EQ(split.train->size(), 3U);
    EXPECT_THAT(split.train->get(0)["features"].as<float>(), ::testing::ElementsAre(1, 2));
  }
}

TEST(FirstLine, IsASampleUnlessItIsAHeader) {
  const testing::TemporaryFolder temporary;
  const fs::path file = temporary.path() + "/a.csv";
  const auto says = [&](const std::string& first, const std::string& options = "") {
    std::ofstream(file) << first << "\n3,4,1\n5,6,0\n7,8,1\n";
    return refusal([&] { load("csv:" + file.string() + "," + file.string() + options, 1, 1); });
  };
  for (const char* first : {"1,2O,0", "1e39,2,0", "0x1,2,0", "1,2,", "1.5,2.5,zero"})
    EXPECT_THAT(says(first), AllOf(HasSubstr("a.csv:1: column"), HasSubstr("is no number"))) << first;
  std::ofstream(file) << "+1,2,0\n3,4,1\n";
  EXPECT_EQ(load("csv:" + file.string() + "," + file.string(), 1, 1).train->size(), 2U);
  for (const char* first : {"a,b,label", "0,1,label", "1,2,label"})
    EXPECT_EQ(says(first), "nothing was thrown") << first;
  EXPECT_EQ(says("2019,2020,label", ",label=label"), "nothing was thrown");
}

}  // namespace
}  // namespace tutti::engine
