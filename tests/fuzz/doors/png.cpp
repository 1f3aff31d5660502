// Images of PNG files, resized to 8 x 8. The harness corrects the checksums of chunks, so that changes are not refused.
#include <zlib.h>

#include <vector>

#include "engine/data/formats/image_file.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

std::vector<std::uint8_t> with_checksums(Input input) {
  constexpr std::size_t signature = 8, head = 8, sum = 4;
  std::vector<std::uint8_t> file(input.begin(), input.end());
  for (std::size_t at = signature; file.size() - std::min(at, file.size()) >= head + sum;) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | file[at + i];
    if (length > file.size() - at - head - sum) break;
    auto crc = static_cast<std::uint32_t>(crc32(0, file.data() + at + 4, static_cast<uInt>(length + 4)));
    at += head + length;
    for (int shift = 24; shift >= 0; shift -= 8) file[at++] = static_cast<std::uint8_t>(crc >> shift);
  }
  return file;
}

}  // namespace

bool take(Input input) {
  const auto file = file_with(with_checksums(input), ".png");
  return !refuses([&] { engine::read_image(file, 3, 8, 8); }, file.string());
}

}  // namespace tutti::fuzz
