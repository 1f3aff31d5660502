// Image files: JPEG and PNG, decoded by libjpeg and libpng, and resized.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Rows of pixels, each of `channels` bytes: 1, grey, or 3, red, green and blue.
struct Pixels {
  std::size_t height = 0, width = 0, channels = 3;
  std::vector<std::uint8_t> bytes;
};

/// Decodes a file's bytes into 1 or 3 channels, whatever it has itself; what is transparent is on black. Throws
/// Error{invalid} with the decoder's words, or with those that say which library this build does without.
Pixels decode_jpeg(std::span<const std::uint8_t> file, std::size_t channels);
Pixels decode_png(std::span<const std::uint8_t> file, std::size_t channels);

/// Linear, over as many pixels as fall into one where it becomes smaller.
Pixels resize(const Pixels& image, std::size_t height, std::size_t width);

/// Either of them, by its first bytes, as u8 of channels x height x width; height 0: in its own size. Throws
/// Error{invalid} that names the file.
Array read_image(const std::filesystem::path& file, std::size_t channels, std::size_t height, std::size_t width);

}  // namespace tutti::engine
