// Data of NPY files, which are mapped, not copied.
#include "engine/data/formats/npy.hpp"

#include <numeric>

#include "tests/fuzz/door.hpp"
#include "tutti/buffer.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".npy");
  return !refuses(
      [&] {
        const engine::Array array = engine::read_npy(file);
        const ConstBytes bytes = array.bytes();
        expect(bytes.size() <= input.size(), "an array has more bytes than its file");
        volatile unsigned sum = 0;
        for (const std::byte each : bytes) sum = sum + std::to_integer<unsigned>(each);
      },
      file.string());
}

}  // namespace tutti::fuzz
