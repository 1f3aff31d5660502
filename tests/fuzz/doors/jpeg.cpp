// Images of JPEG files, resized to 8 x 8.
#include "engine/data/formats/image_file.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".jpeg");
  return !refuses([&] { engine::read_image(file, 3, 8, 8); }, file.string());
}

}  // namespace tutti::fuzz
