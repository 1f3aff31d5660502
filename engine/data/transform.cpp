#include "engine/data/transform.hpp"

#include <cstring>
#include <utility>

#include "engine/config/options.hpp"

namespace tutti::engine {
namespace {

struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool mirrored = false;
};

const Array& image_in(const Sample& sample, const std::string& field) {
  const Array& image = sample[field];
  if (image.shape().size() != 3)
    refuse("'" + field + "' is no image: expected channels x height x width, found " + image.describe());
  return image;
}

/// Copies pixel by pixel; only the size of Pixel matters.
template <class Pixel>
void copy_window(const Array& image, const Window& window, Pixel* out) {
  const std::int64_t height = image.shape()[1], width = image.shape()[2];
  const Pixel* plane = reinterpret_cast<const Pixel*>(image.bytes().data());
  for (std::int64_t c = 0; c < image.shape()[0]; ++c, plane += height * width)
    for (std::int64_t row = 0; row < window.height; ++row)
      for (std::int64_t column = 0; column < window.width; ++column) {
        const std::int64_t y = window.top + row;
        const std::int64_t x = window.left + (window.mirrored ? window.width - 1 - column : column);
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        *out++ = inside ? plane[y * width + x] : Pixel();
      }
}

Array cut(const Array& image, const Window& window) {
  return Array::make(image.dtype(), {image.shape()[0], window.height, window.width}, [&](std::byte* out) {
    switch (size_of(image.dtype())) {
      case 1: return copy_window(image, window, reinterpret_cast<std::uint8_t*>(out));
      case 2: return copy_window(image, window, reinterpret_cast<std::uint16_t*>(out));
      case 4: return copy_window(image, window, reinterpret_cast<std::uint32_t*>(out));
      default: return copy_window(image, window, reinterpret_cast<std::uint64_t*>(out));
    }
  });
}

/// Uniform in [0, choices).
std::int64_t pick(Random& random, std::int64_t choices) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(choices)));
}

void check_room(const Array& image, const std::string& field, int height, int width, int padding) {
  if (height > image.shape()[1] + 2 * padding || width > image.shape()[2] + 2 * padding)
    refuse("'" + field + "' is " + image.describe() + ", too small for a window of " + std::to_string(height) + "x" +
           std::to_string(width) + (padding > 0 ? " with a padding of " + std::to_string(padding) : ""));
}

template <class T>
void scale(const Array& from, float* out, const std::vector<float>& mean, const std::vector<float>& deviation) {
  const float full = std::is_same_v<T, std::uint8_t> ? 255.0F : 1.0F;
  const auto values = from.as<T>();
  const std::size_t each = values.size() / mean.size();
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const float factor = 1.0F / (full * deviation[c]), offset = -mean[c] / deviation[c];
    for (std::size_t i = c * each; i < (c + 1) * each; ++i) out[i] = static_cast<float>(values[i]) * factor + offset;
  }
}

}  // namespace

Transform normalise(std::string field, std::vector<float> mean, std::vector<float> deviation) {
  if (mean.empty() || mean.size() != deviation.size()) refuse("normalise: expected as many deviations as means");
  return [=](Sample& sample, const Draw&) {
    const Array from = std::as_const(sample)[field];
    if (mean.size() > 1 && (from.shape().empty() || from.shape()[0] != static_cast<std::int64_t>(mean.size())))
      refuse("'" + field + "' is " + from.describe() + ", but there are " + std::to_string(mean.size()) + " means");
    sample[field] = Array::make(DType::f32, from.shape(), [&](std::byte* out) {
      visit_dtype(from.dtype(), [&]<class T>(T) { scale<T>(from, reinterpret_cast<float*>(out), mean, deviation); });
    });
  };
}

Transform shift(std::string field, int pixels, Per per) {
  return [=](Sample& sample, const Draw& draw) {
    const Array image = image_in(sample, field);
    Random random = draw.random(0x517f7, per);
    const std::int64_t down = pick(random, 2 * pixels + 1) - pixels, right = pick(random, 2 * pixels + 1) - pixels;
    sample[field] = cut(image, {-down, -right, image.shape()[1], image.shape()[2]});
  };
}

Transform random_crop(std::string field, int height, int width, int padding, Per per) {
  return [=](Sample& sample, const Draw& draw) {
    const Array image = image_in(sample, field);
    check_room(image, field, height, width, padding);
    Random random = draw.random(0xc407, per);
    const std::int64_t top = pick(random, image.shape()[1] + 2 * padding - height + 1) - padding;
    const std::int64_t left = pick(random, image.shape()[2] + 2 * padding - width + 1) - padding;
    sample[field] = cut(image, {top, left, height, width});
  };
}

Transform centre_crop(std::string field, int height, int width) {
  return [=](Sample& sample, const Draw&) {
    const Array image = image_in(sample, field);
    check_room(image, field, height, width, 0);
    sample[field] = cut(image, {(image.shape()[1] - height) / 2, (image.shape()[2] - width) / 2, height, width});
  };
}

Transform mirror(std::string field, Per per) {
  return [=](Sample& sample, const Draw& draw) {
    const Array image = image_in(sample, field);
    if (draw.random(0x3177, per).below(2) == 1)
      sample[field] = cut(image, {0, 0, image.shape()[1], image.shape()[2], true});
  };
}

Transform convert(std::string field, DType dtype) {
  return [=](Sample& sample, const Draw&) { sample[field] = std::as_const(sample)[field].converted(dtype); };
}

Transform check_label(std::string field, std::size_t classes) {
  return [=](Sample& sample, const Draw&) {
    const Array& found = std::as_const(sample)[field];
    if (!is_integer(found.dtype()))
      refuse("'" + field + "' is no class: expected an integer, found " + found.describe());
    const Array label = found.converted(DType::i64);
    for (const std::int64_t value : label.as<std::int64_t>())
      if (value < 0 || value >= static_cast<std::int64_t>(classes))
        refuse("'" + field + "' is " + std::to_string(value) + ": expected a class from 0 to " +
               std::to_string(classes - 1));
    sample[field] = label;
  };
}

}  // namespace tutti::engine
