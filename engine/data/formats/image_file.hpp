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

/// Takes the rows of an image and resizes them to height x width, or to no other size if `height` is 0. Bilinear
/// interpolation; when reducing, averages over all pixels that fall into one (triangle filter). It needs memory for the
/// result and a few rows.
class Canvas {
 public:
  Canvas(std::size_t channels, std::size_t height, std::size_t width);
  ~Canvas();

  std::size_t channels() const noexcept { return channels_; }
  bool resizes() const noexcept { return resizes_; }
  std::size_t height() const noexcept { return height_; }  ///< 0 until begin(), unless an image is resized
  std::size_t width() const noexcept { return width_; }

  /// The size of the image that comes.
  void begin(std::size_t height, std::size_t width);
  /// The next row, from top to bottom: width x channels bytes.
  void row(const std::uint8_t* pixels);
  /// u8 of channels x height x width, once all rows have come.
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

/// Throws Error{invalid} if an image claims more pixels than `limits` allow, more than a million in a row or column, or
/// more than its file can hold, which is `most`. `whole` says that memory is needed for all of its pixels at once, as
/// it cannot be decoded row by row or is not resized; the limit is a quarter then.
void check_pixels(std::size_t height, std::size_t width, bool whole, std::size_t most, const ReadLimits& limits);

/// Decodes a file into the canvas, converting to its channels, 1 (grey by ITU-R BT.601) or 3 (red, green, blue), as
/// PIL, OpenCV and torchvision do: transparency, colour profiles and gamma values are left out of account. Throws
/// Error{invalid} with the decoder's message, or with the missing library in builds without it.
void decode_jpeg(std::span<const std::uint8_t> file, const ReadLimits& limits, Canvas& canvas);
void decode_png(std::span<const std::uint8_t> file, const ReadLimits& limits, Canvas& canvas);

/// Reads a JPEG or PNG file, recognised by its first bytes, as u8 of channels x height x width. `height` 0: not
/// resized. Throws Error{invalid} with the file's name.
Array read_image(const std::filesystem::path& file, std::size_t channels, std::size_t height, std::size_t width,
                 const ReadLimits& limits = {});

}  // namespace tutti::engine
