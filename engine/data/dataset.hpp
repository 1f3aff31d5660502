// Dataset: labelled images in memory, and where they come from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::engine {

struct ImageShape {
  std::size_t channels = 1, height = 0, width = 0;
  std::size_t pixels() const noexcept { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// Images of one shape, a byte a pixel (channel, row, column), and a class each.
struct Dataset {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::size_t size() const noexcept { return labels.size(); }
  std::span<const std::uint8_t> image(std::size_t i) const {
    return std::span(pixels).subspan(i * shape.pixels(), shape.pixels());
  }
};

/// What a network is trained and measured on.
struct DataSplit {
  Dataset train, test;
  std::size_t classes = 0;
  float mean = 0, deviation = 1;  ///< of the training pixels, on the scale 0 .. 1
  std::string description;        ///< one line for the user: what it is, how many
};

/// MNIST's folder: {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, each also with
/// .gz. Throws Error{invalid} with one line that names the file and what is wrong with it.
DataSplit load_folder(const std::filesystem::path& folder);

/// "CxHxW" of random pixels and labels in 10 classes, for measuring throughput; the same for the same seed.
DataSplit random_split(std::string_view shape, std::size_t samples, std::uint64_t seed);

/// `source` is a folder, or "random:CxHxW".
DataSplit load(const std::string& source, std::size_t random_samples, std::uint64_t seed);

}  // namespace tutti::engine
