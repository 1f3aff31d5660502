// Lists of HDF5 files: what is read, how many files are open, preloading, the cache, and mistakes.
#include "engine/data/formats/hdf5.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>
#include <set>

#include "engine/data/formats/hdf5_file.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/data/loader.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

/// `count` samples, whose features are first, first + 1, ... and -first, -(first + 1), ...; labels count up modulo 3.
Fields counting(std::size_t count, std::size_t first) {
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  for (std::size_t i = first; i < first + count; ++i) {
    features.insert(features.end(), {static_cast<float>(i), -static_cast<float>(i)});
    labels.push_back(static_cast<std::int32_t>(i % 3));
  }
  const auto rows = static_cast<std::int64_t>(count);
  return {{"features", Array(std::move(features), {rows, 2})}, {"labels", Array(std::move(labels))}};
}

class Hdf5Test : public ::testing::Test {
 protected:
  /// Writes files with these numbers of samples, numbered across all files, and a list of the files.
  std::vector<fs::path> write_files(const std::vector<std::size_t>& counts) const {
    std::size_t first = 0;
    std::ofstream list(folder_ / "list.txt");
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::string name = "part" + std::to_string(i) + ".h5";
      write_hdf5(folder_ / name, counting(counts[i], first));
      list << "  " << name << " \r\n# and\n\n";
      first += counts[i];
    }
    list.close();
    return read_list(folder_ / "list.txt");
  }
  std::string text(const std::string& options = "") const {
    return "hdf5:" + (folder_ / "list.txt").string() + options;
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Hdf5Test, IsReadInTheOrderOfTheList) {
  const Hdf5Dataset data(write_files({5, 1, 4}), {});
  ASSERT_EQ(data.size(), 10U);
  EXPECT_EQ(data.files(), (std::vector<std::size_t>{5, 1, 4}));
  EXPECT_EQ(data.classes(), 3U);
  for (std::size_t i = 0; i < 10; ++i) {
    const Sample sample = data.get(i);
    EXPECT_THAT(sample["features"].as<float>(), ElementsAre(i, -static_cast<float>(i)));
    EXPECT_EQ(sample["label"].item<std::int64_t>(), static_cast<std::int64_t>(i % 3));
  }
}

TEST_F(Hdf5Test, OpensAFewAtATimeWhenTheyAreWanted) {
  const Hdf5Dataset data(write_files({3, 3, 3, 3, 3}), {.open = 2});
  EXPECT_EQ(data.opened(), 0U);
  data.get(0);
  data.get(1);
  EXPECT_EQ(data.opened(), 1U);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(data.get(i)["features"].as<float>()[0], static_cast<float>(i));
  EXPECT_EQ(data.opened(), 5U);
  for (std::size_t i = 0; i < 100; ++i) data.get(i * 7 % 15);
  EXPECT_EQ(data.most_open(), 2U);
}

TEST_F(Hdf5Test, NestedInputsAreSortedByName) {
  const auto numbers = [](float value) { return Array(std::vector<float>{value, value}, {2, 1}); };
  write_hdf5(folder_ / "nested.h5", {{"x/tracks", numbers(3)},
                                     {"x/jets/b", numbers(2)},
                                     {"x/jets/a", numbers(1)},
                                     {"y", Array(std::vector<std::uint8_t>{0, 1, 0, 0, 0, 1}, {2, 3})}});
  const Hdf5Dataset data({folder_ / "nested.h5"}, {.features = "x", .labels = "y"});
  EXPECT_THAT(data.inputs(), ElementsAre("x/jets/a", "x/jets/b", "x/tracks"));
  EXPECT_EQ(data.classes(), 3U) << "labels are rows with one 1";
  const Sample sample = data.get(1);
  EXPECT_EQ(sample["x/jets/b"].item<float>(), 2);
  EXPECT_EQ(sample["label"].item<std::int64_t>(), 2);
}

TEST_F(Hdf5Test, OtherLabelsAreNumbers) {
  write_hdf5(folder_ / "a.h5", {{"features", Array(std::vector<double>{1, 2}, {2, 1})},
                                {"labels", Array(std::vector<double>{0, 1, 0.5, 0.5}, {2, 2})}});
  const Hdf5Dataset data({folder_ / "a.h5"}, {});
  EXPECT_EQ(data.classes(), 0U);
  EXPECT_THAT(data.get(1)["target"].as<float>(), ElementsAre(0.5, 0.5));
}

/// Returns the first feature of each sample that a rank reads in an epoch, if whole files are assigned to ranks.
std::vector<float> epoch_of(const std::shared_ptr<const Dataset>& data, int rank, int size, std::size_t threads) {
  Loader loader(data,
                Sampler({.samples = data->size(),
                         .batch = 10,
                         .rank = rank,
                         .size = size,
                         .seed = 4,
                         .way = Way::file,
                         .files = data->files()}),
                {}, {.depth = 3, .threads = threads});
  loader.start_epoch(1);
  std::vector<float> found;
  while (const std::optional<const Batch> batch = loader.next())
    for (std::size_t i = 0; i < batch->count; ++i) found.push_back((*batch)["features"].row(i).as<float>()[0]);
  return found;
}

TEST_F(Hdf5Test, PreloadReadsEachFileOnceAndKeepsAFew) {
  const std::vector<fs::path> files = write_files({9, 5, 7, 3, 8, 6, 2});
  for (int size : {1, 2, 3}) {
    std::multiset<float> all;
    std::size_t loads = 0;
    for (int rank = 0; rank < size; ++rank) {
      const auto plain = std::make_shared<Hdf5Dataset>(files, Hdf5Options{.open = 3});
      const auto ahead = std::make_shared<Hdf5Dataset>(files, Hdf5Options{.open = 5, .preload = true});
      const std::vector<float> found = epoch_of(ahead, rank, size, 1);
      loads += ahead->opened();
      EXPECT_EQ(found, epoch_of(plain, rank, size, 1));
      EXPECT_EQ(found, epoch_of(ahead, rank, size, 3));
      EXPECT_LE(ahead->most_open(), 5U);
      all.insert(found.begin(), found.end());
    }
    EXPECT_EQ(loads, 7U) << size;
    EXPECT_EQ(std::set<float>(all.begin(), all.end()).size(), 40U);
    EXPECT_EQ(all.size(), 40U);
  }
}

TEST_F(Hdf5Test, CopiesGoWithTheDataSet) {
  const std::vector<fs::path> files = write_files({2, 2});
  const fs::path cache = folder_ / "cache";
  const auto copies = [&] {
    std::size_t count = 0;
    for (const auto& each : fs::recursive_directory_iterator(cache)) count += each.is_regular_file();
    return count;
  };
  for (const bool preload : {false, true}) {
    {
      const Hdf5Dataset data(files, {.preload = preload, .cache = cache});
      EXPECT_EQ(copies(), 0U);
      data.get(0);
      EXPECT_EQ(copies(), 1U);
      data.get(3);
      EXPECT_EQ(copies(), 2U);
    }
    EXPECT_TRUE(fs::is_empty(cache));
  }
}

TEST_F(Hdf5Test, IsASource) {
  write_files({15, 15});
  const DataSplit split = load(text(",open=2,preload"), 1, 1);
  EXPECT_EQ(split.train->size(), 27U);
  EXPECT_EQ(split.test->size(), 3U);
  EXPECT_EQ(split.classes, 3U);
  const auto files = split.train->files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0] + files[1], 27U);
  EXPECT_EQ(load("hdf5:" + (folder_ / "part1.h5").string(), 1, 1).train->size(), 14U);
  EXPECT_THAT(refusal([&] { load(text(",preload,open=1"), 1, 1); }), HasSubstr("with preload 2"));
  EXPECT_THAT(refusal([&] { load(text(",classes=2"), 1, 1); }),
              AllOf(HasSubstr("part0.h5: dataset 'labels': the label of sample 2 is 2"), HasSubstr("0 to 1")));
}

TEST_F(Hdf5Test, ErrorsNameListLineFileAndDataset) {
  const std::vector<fs::path> files = write_files({3, 3});
  std::ofstream(folder_ / "list.txt", std::ios::app) << "absent.h5\n";
  EXPECT_THAT(refusal([&] { load(text(), 1, 1); }),
              AllOf(HasSubstr("list.txt:7: "), HasSubstr("absent.h5: no such file")));
  EXPECT_THAT(refusal([&] { read_list(folder_ / "nolist.txt"); }), HasSubstr("nolist.txt: cannot be read"));
  EXPECT_THAT(refusal([&] { Hdf5Dataset(files, {.features = "X"}); }),
              AllOf(HasSubstr("part0.h5: has no dataset 'X'"), HasSubstr("'features', 'labels'")));

  fs::resize_file(files[1], fs::file_size(files[1]) / 2);
  EXPECT_THAT(refusal([&] { Hdf5Dataset(files, {}); }), HasSubstr("part1.h5: is no whole HDF5 file"));
  Fields other = counting(3, 0);
  other["labels"] = Array(std::vector<std::int32_t>{0, 1});
  write_hdf5(files[1], other);
  EXPECT_THAT(refusal([&] { Hdf5Dataset(files, {}); }),
              AllOf(HasSubstr("part1.h5: dataset 'labels' has 2 rows"), HasSubstr("'features' 3")));
  other = counting(3, 0);
  other["features"] = Array(std::vector<float>(9), {3, 3});
  write_hdf5(files[1], other);
  EXPECT_THAT(refusal([&] { Hdf5Dataset(files, {}); }),
              AllOf(HasSubstr("part1.h5: dataset 'features' is f32 of 3 for each sample"), HasSubstr("f32 of 2")));
  other = counting(3, 0);
  other["labels"] = Array(std::vector<std::int32_t>{0, -1, 2});
  write_hdf5(files[1], other);
  EXPECT_THAT(refusal([&] { Hdf5Dataset(files, {}); }),
              HasSubstr("part1.h5: dataset 'labels': the label of sample 1 is -1"));
}

/// A file whose features are three numbers in a file of raw bytes beside it, or in the other dataset of the same file.
void write_elsewhere(const fs::path& file, bool raw) {
  const hsize_t sides[] = {3, 1};
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, sides, nullptr), how = H5Pcreate(H5P_DATASET_CREATE);
  if (raw)
    H5Pset_external(how, (file.string() + ".raw").c_str(), 0, 12);
  else
    H5Pset_virtual(how, space, ".", "labels", space);
  const hid_t features = H5Dcreate2(id, "features", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, how, H5P_DEFAULT);
  const hid_t labels = H5Dcreate2(id, "labels", H5T_NATIVE_INT32, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const std::int32_t numbers[] = {0, 1, 2};
  H5Dwrite(labels, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  std::ofstream(file.string() + ".raw") << std::string(12, 'x');
  for (const hid_t dataset : {features, labels}) H5Dclose(dataset);
  H5Pclose(how);
  H5Sclose(space);
  H5Fclose(id);
}

TEST_F(Hdf5Test, DataOfOtherFilesAreTakenWhereThatIsAllowed) {
  const fs::path file = folder_ / "a.h5";
  for (const bool raw : {false, true}) {
    write_elsewhere(file, raw);
    EXPECT_THAT(refusal([&] { Hdf5File(file).columns("features"); }),
                AllOf(HasSubstr("a.h5: dataset 'features' has its data in other files"),
                      HasSubstr("data.external_files=true")));
    ReadLimits limits;
    limits.external_files = true;
    EXPECT_EQ(Hdf5File(file, limits).columns("features").front().shape, (ArrayShape{3, 1}));
    EXPECT_EQ(Hdf5File(file).columns("labels").front().shape, (ArrayShape{3, 1}));
  }
}

}  // namespace
}  // namespace tutti::engine
