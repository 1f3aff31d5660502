// Image files: JPEG and PNG, decoded by libjpeg and libpng, and resized.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Rows of pixels with `channels` bytes each: 1 (grey) or 3 (red, green, blue).
struct Pixels {
  std::size_t height = 0, width = 0, channels = 3;
  std::vector<std::uint8_t> bytes;
};

/// Decodes a file into `channels` (1 or 3) channels, converting if needed; transparent pixels are blended onto black.
/// Throws Error{invalid} with the decoder's message, or with the missing library in builds without it.
Pixels decode_jpeg(std::span<const std::uint8_t> file, std::size_t channels);
Pixels decode_png(std::span<const std::uint8_t> file, std::size_t channels);

/// Bilinear interpolation; when reducing, averages over all pixels that fall into one (triangle filter).
Pixels resize(const Pixels& image, std::size_t height, std::size_t width);

/// Reads a JPEG or PNG file, recognised by its first bytes, as u8 of channels x height x width. `height` 0: not
/// resized. Throws Error{invalid} with the file's name.
Array read_image(const std::filesystem::path& file, std::size_t channels, std::size_t height, std::size_t width);

}  // namespace tutti::engine
