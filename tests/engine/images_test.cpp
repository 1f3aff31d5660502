// Folders of JPEG and PNG files, and resizing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include <jpeglib.h>

#include "engine/data/formats/image_file.hpp"
#include "engine/data/formats/source.hpp"
#include "engine/data/loader.hpp"
#include "engine/data/random.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::refusal;

/// Rows of pixels with one byte per channel.
struct Pixels {
  std::size_t height = 0, width = 0, channels = 3;
  std::vector<std::uint8_t> bytes;
};

/// An image of one colour.
Pixels plain(std::size_t height, std::size_t width, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  Pixels image{height, width, 3, {}};
  for (std::size_t i = 0; i < height * width; ++i) image.bytes.insert(image.bytes.end(), {red, green, blue});
  return image;
}

void write_png(const fs::path& file, const Pixels& image) {
  fs::create_directories(file.parent_path());
  png_image about{};
  about.version = PNG_IMAGE_VERSION;
  about.width = static_cast<png_uint_32>(image.width);
  about.height = static_cast<png_uint_32>(image.height);
  about.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  ASSERT_TRUE(png_image_write_to_file(&about, file.c_str(), 0, image.bytes.data(), 0, nullptr));
}

void write_jpeg(const fs::path& file, const Pixels& image) {
  fs::create_directories(file.parent_path());
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  std::FILE* out = std::fopen(file.c_str(), "wbe");
  ASSERT_TRUE(out);
  jpeg_stdio_dest(&info, out);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.bytes.data() + info.next_scanline * image.width * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(out);
}

class ImagesTest : public ::testing::Test {
 protected:
  DataSplit load(const std::string& options = "") const {
    return engine::load("images:" + folder_.string() + options, 1, 1);
  }
  void cut(const fs::path& file) const { fs::resize_file(file, fs::file_size(file) / 2); }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(ImagesTest, FoldersAreClasses) {
  write_jpeg(folder_ / "train/cat/a.jpg", plain(16, 24, 200, 100, 50));
  write_png(folder_ / "train/ape/b.PNG", plain(8, 8, 1, 2, 3));
  write_png(folder_ / "train/ape/a.png", plain(8, 10, 10, 20, 30));
  write_jpeg(folder_ / "val/cat/c.jpeg", plain(9, 9, 0, 0, 255));
  const DataSplit split = load(",size=8x12");
  EXPECT_EQ(split.train->size(), 3U);
  EXPECT_EQ(split.test->size(), 1U);
  EXPECT_EQ(split.classes, 2U);
  EXPECT_EQ(split.image(), (ImageShape{3, 8, 12}));
  const Sample ape = split.train->get(0), cat = split.train->get(2);
  EXPECT_EQ(ape["label"].item<std::int64_t>(), 0);
  EXPECT_EQ(cat["label"].item<std::int64_t>(), 1);
  for (int c = 0; c < 3; ++c) {
    EXPECT_THAT(ape["image"].row(static_cast<std::size_t>(c)).as<std::uint8_t>(), Each(10 * (c + 1)));
    const int colour[] = {200, 100, 50};
    for (const int value : cat["image"].row(static_cast<std::size_t>(c)).as<std::uint8_t>())
      EXPECT_NEAR(value, colour[c], 3);
  }
  EXPECT_EQ(load().image(), (ImageShape{3, 8, 10})) << "the first one's size";
  const Sample grey = load(",channels=1").train->get(2);
  EXPECT_EQ(grey["image"].shape(), (ArrayShape{1, 8, 10}));
  EXPECT_NEAR(grey["image"].as<std::uint8_t>()[0], 0.299 * 200 + 0.587 * 100 + 0.114 * 50, 3);
}

/// Writes a PNG of one pixel, of any colour type and depth. `gamma` 0: without a gamma.
void write_pixel(const fs::path& file, int colour_type, int depth, const std::vector<std::uint8_t>& bytes,
                 double gamma = 0) {
  fs::create_directories(file.parent_path());
  std::FILE* const out = std::fopen(file.c_str(), "wbe");
  ASSERT_TRUE(out);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, out);
  png_set_IHDR(png, info, 1, 1, depth, colour_type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (gamma > 0) png_set_gAMA(png, info, gamma);
  png_write_info(png, info);
  png_write_row(png, bytes.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  std::fclose(out);
}

TEST_F(ImagesTest, NumbersAreThoseThatPilGives) {
  const std::vector<std::uint8_t> red{255, 0, 0}, deep_red{255, 7, 0, 7, 0, 7};
  const fs::path all = folder_ / "train/all";
  write_pixel(all / "1.png", PNG_COLOR_TYPE_RGB, 8, red);
  write_pixel(all / "2.png", PNG_COLOR_TYPE_RGB, 8, red, 0.45455);
  write_pixel(all / "3.png", PNG_COLOR_TYPE_RGB, 8, red, 1);
  write_pixel(all / "4.png", PNG_COLOR_TYPE_RGB, 16, deep_red);
  write_pixel(all / "5.png", PNG_COLOR_TYPE_RGBA, 8, {255, 0, 0, 10});
  write_jpeg(all / "6.jpg", plain(8, 8, 255, 0, 0));
  write_pixel(all / "7.png", PNG_COLOR_TYPE_GRAY, 8, {100}, 1);
  write_pixel(all / "8.png", PNG_COLOR_TYPE_GRAY_ALPHA, 8, {100, 0});
  write_pixel(all / "9.png", PNG_COLOR_TYPE_GRAY, 16, {100, 200});
  write_png(folder_ / "test/all/a.png", plain(1, 1, 0, 0, 0));
  const DataSplit grey = load(",size=1x1,channels=1"), colours = load(",size=1x1");
  const auto values = [](const DataSplit& split, std::size_t i) {
    const Array image = split.train->get(i)["image"];
    const auto bytes = image.as<std::uint8_t>();
    return std::vector<int>(bytes.begin(), bytes.end());
  };
  for (const std::size_t i : {0U, 1U, 2U, 3U, 4U}) {
    EXPECT_THAT(values(grey, i), ElementsAre(76)) << i + 1 << ".png";
    EXPECT_THAT(values(colours, i), ElementsAre(255, 0, 0)) << i + 1 << ".png";
  }
  EXPECT_NEAR(values(grey, 5)[0], 76, 1);
  for (const std::size_t i : {6U, 7U, 8U}) {
    EXPECT_THAT(values(grey, i), ElementsAre(100)) << i + 1 << ".png";
    EXPECT_THAT(values(colours, i), Each(100)) << i + 1 << ".png";
  }
}

TEST_F(ImagesTest, ATenthIsHeldOutOfEachClass) {
  for (int i = 0; i < 60; ++i)
    write_png(folder_ / (i < 40 ? "often" : "rarely") / (std::to_string(i) + ".png"),
              plain(2, 2, static_cast<std::uint8_t>(i), 0, 0));
  const DataSplit split = load();
  std::vector<std::int64_t> held_out;
  for (std::size_t i = 0; i < split.test->size(); ++i)
    held_out.push_back(split.test->get(i)["label"].item<std::int64_t>());
  EXPECT_EQ(std::ranges::count(held_out, 0), 4);
  EXPECT_EQ(std::ranges::count(held_out, 1), 2);
}

TEST_F(ImagesTest, WithoutHeldOutFolderATenthIsHeldOut) {
  for (int i = 0; i < 20; ++i)
    write_png(folder_ / (i % 2 ? "a" : "b") / (std::to_string(i) + ".png"),
              plain(2, 2, static_cast<std::uint8_t>(i), 0, 0));
  EXPECT_EQ(load().train->size(), 18U);
  EXPECT_EQ(load().test->size(), 2U);
}

TEST_F(ImagesTest, ErrorsNameTheFile) {
  write_png(folder_ / "a/1.png", plain(4, 4, 1, 2, 3));
  write_jpeg(folder_ / "a/2.jpg", plain(64, 64, 1, 200, 3));
  write_jpeg(folder_ / "a/3.jpg", plain(4, 4, 1, 2, 3));
  const DataSplit good = load();
  EXPECT_EQ(good.train->size() + good.test->size(), 3U);
  cut(folder_ / "a/2.jpg");
  EXPECT_THAT(refusal([&] { read_image(folder_ / "a/2.jpg", 3, 0, 0); }), HasSubstr("2.jpg: is no whole JPEG file: "));
  cut(folder_ / "a/1.png");
  EXPECT_THAT(refusal([&] { read_image(folder_ / "a/1.png", 3, 0, 0); }), HasSubstr("1.png: is no whole PNG file: "));
  std::ofstream(folder_ / "a/3.jpg") << "GIF89a";
  EXPECT_THAT(refusal([&] { read_image(folder_ / "a/3.jpg", 3, 0, 0); }), HasSubstr("neither a JPEG nor a PNG"));
  EXPECT_THAT(refusal([&] { load(",size=8"); }), HasSubstr("size=8: expected HEIGHTxWIDTH"));
  EXPECT_THAT(refusal([&] { load(",channels=2"); }), HasSubstr("channels=2"));
}

TEST_F(ImagesTest, CorruptFilesAreDecodedOrRefused) {
  write_png(folder_ / "a.png", plain(12, 12, 1, 2, 3));
  write_jpeg(folder_ / "a.jpg", plain(12, 12, 1, 200, 3));
  Random random(5);
  for (const char* name : {"a.png", "a.jpg"}) {
    std::ifstream in(folder_ / name, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    for (int i = 0; i < 500; ++i) {
      std::string bad = good;
      bad[random.below(bad.size())] = static_cast<char>(random.next());
      if (i % 3 == 0) bad.resize(random.below(bad.size()));
      std::ofstream(folder_ / "bad", std::ios::binary) << bad;
      try {
        read_image(folder_ / "bad", 3, 8, 8);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("bad: is "));
      }
    }
  }
}

TEST_F(ImagesTest, ErrorsNameTheFolder) {
  EXPECT_THAT(refusal([&] { load(); }), HasSubstr("has no folders: expected one for each class"));
  write_png(folder_ / "train/a/1.png", plain(4, 4, 1, 2, 3));
  write_png(folder_ / "test/b/1.png", plain(4, 4, 1, 2, 3));
  EXPECT_THAT(refusal([&] { load(); }), AllOf(HasSubstr("test/b"), HasSubstr("no such class")));
}

std::vector<std::uint8_t> resized(const Pixels& image, std::size_t height, std::size_t width) {
  Canvas canvas(image.channels, height, width);
  canvas.begin(image.height, image.width);
  for (std::size_t y = 0; y < image.height; ++y) canvas.row(image.bytes.data() + y * image.width * image.channels);
  const Array result = canvas.finish();
  const auto bytes = result.as<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

TEST(Canvas, ResizesLinearlyAndTakesAllPixelsIn) {
  const Pixels line{1, 4, 1, {0, 100, 200, 100}};
  EXPECT_THAT(resized(line, 1, 8), ElementsAre(0, 25, 75, 125, 175, 175, 125, 100));
  EXPECT_THAT(resized(line, 2, 4), ElementsAre(0, 100, 200, 100, 0, 100, 200, 100));
  const Pixels checkers{2, 4, 1, {0, 200, 0, 200, 200, 0, 200, 0}};
  EXPECT_THAT(resized(checkers, 1, 1), ElementsAre(100));
  EXPECT_THAT(resized(checkers, 0, 0), ElementsAreArray(checkers.bytes)) << "no other size";
}

// Each output pixel is the mean of the input pixels around its centre, weighted by the triangle filter in both
// directions. The expected values are computed in double precision.
TEST(Canvas, FollowsTheTriangleFilterForAnySizes) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const auto size = [&](std::size_t most) { return 1 + static_cast<std::size_t>(random.below(most)); };
    Pixels image{size(20), size(20), 1, {}};
    for (std::size_t i = 0; i < image.height * image.width; ++i)
      image.bytes.push_back(static_cast<std::uint8_t>(random.next()));
    const std::size_t height = size(20), width = size(20);
    const auto weight = [](std::size_t out, std::size_t to, std::size_t in, std::size_t from) {
      const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
      const double far = std::abs(static_cast<double>(in) + 0.5 - (static_cast<double>(out) + 0.5) * scale) / reach;
      return far < 1 ? 1 - far : 0.0;
    };
    const std::vector<std::uint8_t> got = resized(image, height, width);
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        double sum = 0, total = 0;
        for (std::size_t v = 0; v < image.height; ++v) {
          for (std::size_t u = 0; u < image.width; ++u) {
            const double share = weight(y, height, v, image.height) * weight(x, width, u, image.width);
            sum += share * image.bytes[v * image.width + u];
            total += share;
          }
        }
        ASSERT_NEAR(got[y * width + x], sum / total, 0.51)
            << image.height << "x" << image.width << " to " << height << "x" << width << " at " << y << "," << x;
      }
    }
  }
}

TEST_F(ImagesTest, SizesThatAreClaimedAreNoReasonToTakeMemory) {
  write_png(folder_ / "a.png", plain(30, 40, 1, 2, 3));
  ReadLimits limits;
  limits.max_pixels = 30 * 40;
  EXPECT_NO_THROW(read_image(folder_ / "a.png", 3, 8, 8, limits));
  limits.max_pixels -= 1;
  EXPECT_THAT(refusal([&] { read_image(folder_ / "a.png", 3, 8, 8, limits); }),
              AllOf(HasSubstr("a.png: "), HasSubstr("30x40 pixels"), HasSubstr("raise data.max_pixels")));
}

}  // namespace
}  // namespace tutti::engine
