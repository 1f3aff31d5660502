// Image files: JPEG and PNG, decoded row by row by libjpeg and libpng, and resized on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/data/array.hpp"
#include "engine/data/files.hpp"

namespace tutti::engine {

/// Collects the rows of an image and resizes them to height x width; `height` 0: no resizing. Enlarging is bilinear
/// interpolation; reducing averages over all pixels that fall into one (triangle filter). Needs memory for the result
/// and a few rows.
class Canvas {
 public:
  Canvas(std::size_t channels, std::size_t height, std::size_t width);
  ~Canvas();

  std::size_t channels() const noexcept { return channels_; }
  bool resizes() const noexcept { return resizes_; }
  std::size_t height() const noexcept { return height_; }  ///< 0 until begin(), unless an image is resized
  std::size_t width() const noexcept { return width_; }

  /// Sets the size of the image whose rows follow.
  void begin(std::size_t height, std::size_t width);
  /// Adds the next row, from top to bottom: width x channels bytes.
  void row(const std::uint8_t* pixels);
  /// Returns u8 of channels x height x width. Call it after all rows were added.
  Array finish();

 private:
  class Resizing;
  void put(std::size_t y, const std::uint8_t* pixels);

  const std::size_t channels_;
  const bool resizes_;
  std::size_t height_, width_;
  std::size_t next_ = 0;
  std::vector<std::uint8_t> planes_;
  std::unique_ptr<Resizing> resizing_;
};

/// Throws Error{invalid} if an image claims more than limits.max_pixels pixels, more than a million in a row or column,
/// or more than `most`, the number that its file can hold. `whole`: all pixels are in memory at once, because the image
/// cannot be decoded row by row or is not resized. Then the limit is a quarter of limits.max_pixels.
void check_pixels(std::size_t height, std::size_t width, bool whole, std::size_t most, const ReadLimits& limits);

/// Decodes a file into the canvas and converts to its channels: 1 (grey by ITU-R BT.601) or 3 (red, green, blue). Like
/// PIL, OpenCV and torchvision, ignores transparency, colour profiles and gamma values. Throws Error{invalid} with the
/// decoder's message, or with the missing library in builds without it.
void decode_jpeg(std::span<const std::uint8_t> file, const ReadLimits& limits, Canvas& canvas);
void decode_png(std::span<const std::uint8_t> file, const ReadLimits& limits, Canvas& canvas);

/// Reads a JPEG or PNG file, recognised by its first bytes, as u8 of channels x height x width. `height` 0: not
/// resized. Throws Error{invalid} with the file's name.
Array read_image(const std::filesystem::path& file, std::size_t channels, std::size_t height, std::size_t width,
                 const ReadLimits& limits = {});

}  // namespace tutti::engine
