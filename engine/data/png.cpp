// PNG decoding with libpng.
#include <png.h>

#include "engine/data/image_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

Pixels decode_png(std::span<const std::uint8_t> file, std::size_t channels) {
  png_image about{};
  about.version = PNG_IMAGE_VERSION;
  const auto refuse = [&] {
    const std::string what = about.message;
    png_image_free(&about);
    throw Error(Code::invalid, "is no whole PNG file: " + what);
  };
  if (!png_image_begin_read_from_memory(&about, file.data(), file.size())) refuse();
  about.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Pixels image{about.height, about.width, channels, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(about))};
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&about, &black, image.bytes.data(), 0, nullptr)) refuse();
  return image;
}

}  // namespace tutti::engine
