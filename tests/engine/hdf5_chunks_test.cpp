// HDF5 files with compressed chunks, and more files than may be open: how often chunks are read, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>
#include <set>

#include "engine/data/formats/hdf5.hpp"
#include "engine/data/formats/hdf5_file.hpp"
#include "engine/data/formats/hdf5_reading.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/data/loader.hpp"
#include "tests/engine/samplers.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t width = 256;                            // numbers in a row of features
constexpr std::size_t row_bytes = width * sizeof(float) + 4;  // features and label

/// How a file is written. chunk_rows 0: the file has no chunks.
struct Shape {
  hsize_t rows = 0, chunk_rows = 0, chunk_width = width;
  bool compressed = true;
};

void write(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& sides, std::vector<hsize_t> chunk,
           bool compressed, const void* values) {
  const hid_t space = H5Screate_simple(static_cast<int>(sides.size()), sides.data(), nullptr);
  const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
  if (chunk[0] > 0) H5Pset_chunk(how, static_cast<int>(chunk.size()), chunk.data());
  if (chunk[0] > 0 && compressed) H5Pset_deflate(how, 1);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  if (values) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(dataset);
  H5Pclose(how);
  H5Sclose(space);
}

/// Row i of the features is i + first everywhere, and its label i modulo 3.
void write_file(const fs::path& file, const Shape& shape, std::size_t first = 0) {
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < shape.rows; ++i) {
    features.insert(features.end(), width, static_cast<float>(first + i));
    labels.push_back(static_cast<std::int32_t>(i % 3));
  }
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  write(id, "features", H5T_NATIVE_FLOAT, {shape.rows, width}, {shape.chunk_rows, shape.chunk_width}, shape.compressed,
        features.data());
  write(id, "labels", H5T_NATIVE_INT32, {shape.rows}, {shape.chunk_rows}, shape.compressed, labels.data());
  H5Fclose(id);
}

class Hdf5ChunksTest : public ::testing::Test {
 protected:
  std::vector<fs::path> write_files(std::size_t count, const Shape& shape) const {
    std::ofstream list(folder_ / "list.txt");
    std::vector<fs::path> files;
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back(folder_ / ("part" + std::to_string(i) + ".h5"));
      write_file(files.back(), shape, i * shape.rows);
      list << files.back().filename().string() << "\n";
    }
    return files;
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

/// Reads an epoch, checks the contents of its samples, and returns their numbers in order.
std::vector<SampleId> epoch_of(const std::shared_ptr<const Dataset>& data, std::size_t epoch, std::size_t threads = 1,
                               int rank = 0, int size = 1) {
  const Sampler sampler(
      {.samples = data->size(), .batch = 20, .rank = rank, .size = size, .seed = 4, .blocks = data->blocks()});
  Loader loader(data, sampler, {}, {.depth = 3, .threads = threads});
  loader.start_epoch(epoch);
  std::vector<SampleId> seen;
  std::size_t others = 0;
  while (const std::optional<const Batch> batch = loader.next())
    for (std::size_t i = 0; i < batch->count; ++i) {
      others += (*batch)["features"].row(i).as<float>()[width - 1] != static_cast<float>(batch->ids[i]);
      seen.push_back(batch->ids[i]);
    }
  EXPECT_EQ(others, 0U);
  return seen;
}

bool is_prime(std::size_t n) {
  for (std::size_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n > 1;
}

TEST_F(Hdf5ChunksTest, ChunkCacheHoldsAFewChunks) {
  constexpr std::size_t chunk = 2048 * width * sizeof(float);
  write_file(folder_ / "a.h5", {.rows = 12000, .chunk_rows = 2048});
  const Hdf5ChunkCache features = Hdf5File(folder_ / "a.h5").chunk_cache("features");
  EXPECT_EQ(features.bytes, 4 * chunk);
  EXPECT_GE(features.slots, 400U);
  EXPECT_TRUE(is_prime(features.slots));
  EXPECT_EQ(Hdf5File(folder_ / "a.h5").chunk_cache("labels").bytes, std::size_t{1} << 20) << "HDF5's own is enough";
  EXPECT_EQ(Hdf5File(folder_ / "a.h5", {}, 3 * chunk).chunk_cache("features").bytes, 3 * chunk);
  EXPECT_EQ(Hdf5File(folder_ / "a.h5", {}, 1).chunk_cache("features").bytes, chunk) << "one in any case";

  write_file(folder_ / "narrow.h5", {.rows = 12000, .chunk_rows = 2048, .chunk_width = 100});
  EXPECT_EQ(Hdf5File(folder_ / "narrow.h5", {}, 1).chunk_cache("features").bytes, 3U * 2048 * 100 * sizeof(float));
}

TEST_F(Hdf5ChunksTest, WithoutCompressionRowsAreReadByThemselves) {
  write_file(folder_ / "a.h5", {.rows = 100, .chunk_rows = 30, .compressed = false});
  write_file(folder_ / "b.h5", {.rows = 100, .chunk_rows = 0});
  for (const char* name : {"a.h5", "b.h5"}) {
    const Hdf5File file(folder_ / name);
    EXPECT_EQ(file.chunk_cache("features").bytes, 0U);
    EXPECT_EQ(file.columns("features")[0].chunk_rows, 0U);
    const auto data = std::make_shared<Hdf5Dataset>(std::vector{folder_ / name}, Hdf5Options{.memory = 1});
    EXPECT_TRUE(data->blocks().empty());
    EXPECT_EQ(epoch_of(data, 0).size(), 100U);
    EXPECT_EQ(data->reads(), 0U);
    EXPECT_EQ(data->note(), "");
  }
  const hid_t id = H5Fcreate((folder_ / "c.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  write(id, "features", H5T_NATIVE_FLOAT, {8, 2}, {4, 2}, false, nullptr);
  H5Fclose(id);
  const Hdf5File unwritten(folder_ / "c.h5");
  EXPECT_EQ(unwritten.chunk_cache("features").slots, 0U);
}

TEST_F(Hdf5ChunksTest, EachChunkIsReadOnceInAnEpoch) {
  const std::vector<fs::path> files = write_files(1, {.rows = 10000, .chunk_rows = 512});
  const auto data = std::make_shared<Hdf5Dataset>(files, Hdf5Options{.memory = 6 * 512 * row_bytes});
  const Blocks blocks = data->blocks();
  EXPECT_EQ(blocks.count(), 20U);
  EXPECT_EQ(blocks.window, 3U);
  const std::vector<SampleId> first = epoch_of(data, 0);
  EXPECT_EQ(data->reads(), 20U);
  EXPECT_EQ(first, order_by_blocks(blocks, 4, 0));
  const std::vector<SampleId> second = epoch_of(data, 1);
  EXPECT_LE(data->reads(), 40U);
  EXPECT_EQ(second, order_by_blocks(blocks, 4, 1));
  EXPECT_EQ(epoch_of(data, 1, 3), second);
}

TEST_F(Hdf5ChunksTest, RanksSeeEverySampleOnce) {
  const std::vector<fs::path> files = write_files(3, {.rows = 1000, .chunk_rows = 100});
  for (int size = 1; size <= 3; ++size) {
    std::multiset<SampleId> seen;
    for (int rank = 0; rank < size; ++rank) {
      const auto data = std::make_shared<Hdf5Dataset>(files, Hdf5Options{.open = 2, .memory = 1});
      ASSERT_FALSE(data->blocks().empty());
      const auto own = epoch_of(data, 0, 1, rank, size);
      seen.insert(own.begin(), own.end());
      EXPECT_LE(data->most_open(), 2U);
    }
    EXPECT_EQ(seen.size(), 3000U);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 3000U);
  }
}

TEST_F(Hdf5ChunksTest, ChunksThatFitAreReadOnceAndShuffledFreely) {
  const std::vector<fs::path> one = write_files(1, {.rows = 3000, .chunk_rows = 512});
  const auto data = std::make_shared<Hdf5Dataset>(one, Hdf5Options{.memory = 3000 * row_bytes});
  EXPECT_TRUE(data->blocks().empty());
  for (std::size_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(epoch_of(data, epoch).size(), 3000U);
  EXPECT_EQ(data->reads(), 6U);
}

TEST_F(Hdf5ChunksTest, FilesThatFitAreReadOnceAndShuffledFreely) {
  for (const hsize_t chunk : {0, 64}) {
    const std::vector<fs::path> many = write_files(16, {.rows = 200, .chunk_rows = chunk});
    const auto files = std::make_shared<Hdf5Dataset>(many, Hdf5Options{.open = 4});
    EXPECT_TRUE(files->blocks().empty());
    for (std::size_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(epoch_of(files, epoch).size(), 3200U);
    EXPECT_EQ(files->opened(), 16U);
    EXPECT_LE(files->most_open(), 4U);
  }
}

TEST_F(Hdf5ChunksTest, EachFileIsOpenedOnceInAnEpoch) {
  for (const hsize_t chunk : {0, 128}) {
    const std::vector<fs::path> files = write_files(16, {.rows = 600, .chunk_rows = chunk});
    const auto data = std::make_shared<Hdf5Dataset>(files, Hdf5Options{.open = 4, .memory = 8 * 256 * row_bytes});
    ASSERT_FALSE(data->blocks().empty());
    EXPECT_EQ(epoch_of(data, 0).size(), 9600U);
    EXPECT_GE(data->opened(), 16U);
    EXPECT_LE(data->opened(), 19U) << "once each, but what is read ahead may overtake the end of each four files";
    EXPECT_EQ(data->reads(), data->blocks().count());
    EXPECT_LE(data->most_open(), 4U);
  }
}

TEST_F(Hdf5ChunksTest, PreloadOfAFewReadsEachFileOnce) {
  const std::vector<fs::path> files = write_files(16, {.rows = 100, .chunk_rows = 64});
  const auto data = std::make_shared<Hdf5Dataset>(files, Hdf5Options{.open = 4, .preload = true});
  EXPECT_EQ(data->blocks().window, 2U);
  EXPECT_EQ(epoch_of(data, 0), order_by_blocks(data->blocks(), 4, 0));
  EXPECT_EQ(data->reads(), 16U);
  EXPECT_LE(data->most_open(), 4U);
  EXPECT_TRUE(Hdf5Dataset(files, {.open = 16, .preload = true}).blocks().empty());
}

TEST_F(Hdf5ChunksTest, TheDescriptionSaysHowToShuffleFreely) {
  write_files(6, {.rows = 600, .chunk_rows = 300});
  const std::string source = "hdf5:" + (folder_ / "list.txt").string() + ",open=2";
  const DataSplit split = load(source + ",memory=1", 1, 1);
  EXPECT_THAT(split.description,
              EndsWith("; rows are shuffled over 1 block of 300 rows from 2 of the 6 files at a time, as their 4 MiB "
                       "are more than memory=1: say memory=4 to shuffle freely"));
  EXPECT_EQ(split.train->blocks().samples(), split.train->size());
  EXPECT_THAT(
      load(source + ",preload", 1, 1).description,
      EndsWith("rows are shuffled over 1 of the 6 files at a time, as these are more than open=2: say open=6 to "
               "shuffle freely, which takes 4 MiB"));
  for (const char* freely : {"", ",memory=4", ",preload,open=6"})
    EXPECT_THAT(load(source + freely, 1, 1).description, Not(HasSubstr("shuffle"))) << freely;
}

TEST(Hdf5Layout, BlocksHaveWholeChunksOfTheWidestDataset) {
  const auto column = [](std::int64_t rows, std::int64_t numbers, std::size_t chunk_rows) {
    return Hdf5Column{"x", DType::f32, {rows, numbers}, chunk_rows};
  };
  using Columns = std::vector<Hdf5Column>;
  EXPECT_EQ(layout_of(Columns{column(90000, 1000, 0), column(90000, 1, 0)}).block_rows, 0U);
  EXPECT_EQ(layout_of(Columns{column(90000, 1000, 1000), column(90000, 1, 1000)}).block_rows, 1000U);
  EXPECT_EQ(layout_of(Columns{column(90000, 1000, 100), column(90000, 1, 90000)}).block_rows, 100U);
  EXPECT_EQ(layout_of(Columns{column(900000, 1000, 100), column(900000, 1, 900000)}).block_rows, 900U)
      << "a block has as many bytes as the chunk of labels";
  EXPECT_EQ(layout_of(Columns{column(90000, 15, 10), column(90000, 1, 0)}).block_rows, 4100U) << "256 KiB at least";
}

}  // namespace
}  // namespace tutti::engine
