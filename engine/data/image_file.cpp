#include "engine/data/image_file.hpp"

#include <algorithm>
#include <cmath>

#include "engine/data/files.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

/// The weights, with sum 1, of the input pixels from `first` on that make up one output pixel.
struct Mix {
  std::size_t first = 0;
  std::vector<float> weights;
};

std::vector<Mix> mixes(std::size_t from, std::size_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Mix> found(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const double begin = std::max(centre - reach + 0.5, 0.0),
                 end = std::min(centre + reach + 0.5, static_cast<double>(from));
    Mix& mix = found[i];
    mix.first = static_cast<std::size_t>(begin);
    double total = 0;
    for (std::size_t j = mix.first; j < static_cast<std::size_t>(end); ++j) {
      const double weight = std::max(1 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach, 0.0);
      mix.weights.push_back(static_cast<float>(weight));
      total += weight;
    }
    for (float& weight : mix.weights) weight = static_cast<float>(weight / total);
  }
  return found;
}

/// Converts interleaved channels to one plane per channel.
Array planes(const Pixels& image) {
  const ArrayShape shape{static_cast<std::int64_t>(image.channels), static_cast<std::int64_t>(image.height),
                         static_cast<std::int64_t>(image.width)};
  return Array::make(DType::u8, shape, [&](std::byte* out) {
    for (std::size_t c = 0; c < image.channels; ++c)
      for (std::size_t i = c; i < image.bytes.size(); i += image.channels)
        *out++ = static_cast<std::byte>(image.bytes[i]);
  });
}

}  // namespace

Pixels resize(const Pixels& image, std::size_t height, std::size_t width) {
  if (image.height == height && image.width == width) return image;
  const std::vector<Mix> rows = mixes(image.height, height), columns = mixes(image.width, width);
  const std::size_t line = width * image.channels;
  std::vector<float> narrowed(image.height * line);
  for (std::size_t y = 0; y < image.height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t k = 0; k < columns[x].weights.size(); ++k)
        for (std::size_t c = 0; c < image.channels; ++c)
          narrowed[y * line + x * image.channels + c] +=
              columns[x].weights[k] *
              static_cast<float>(image.bytes[(y * image.width + columns[x].first + k) * image.channels + c]);
  Pixels result{height, width, image.channels, std::vector<std::uint8_t>(height * line)};
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t i = 0; i < line; ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < rows[y].weights.size(); ++k)
        sum += rows[y].weights[k] * narrowed[(rows[y].first + k) * line + i];
      result.bytes[y * line + i] = static_cast<std::uint8_t>(std::clamp(std::lround(sum), 0L, 255L));
    }
  return result;
}

Array read_image(const std::filesystem::path& file, std::size_t channels, std::size_t height, std::size_t width) {
  const MappedFile mapped = map_file(file);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(mapped.memory.get()), mapped.bytes);
  const auto begins = [&](std::initializer_list<std::uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  try {
    if (begins({0xff, 0xd8})) {
      const Pixels image = decode_jpeg(bytes, channels);
      return planes(height > 0 ? resize(image, height, width) : image);
    }
    if (begins({0x89, 'P', 'N', 'G'})) {
      const Pixels image = decode_png(bytes, channels);
      return planes(height > 0 ? resize(image, height, width) : image);
    }
  } catch (const Error& error) {
    refuse(file, error.what());
  }
  refuse(file, "is neither a JPEG nor a PNG file");
}

}  // namespace tutti::engine
