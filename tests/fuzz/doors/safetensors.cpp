// Tensors of safetensors files.
#include "engine/checkpoint/safetensors.hpp"

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".safetensors");
  return !refuses(
      [&] {
        const engine::Safetensors all(file);
        std::size_t bytes = 0;
        for (const engine::SavedTensor& each : all.tensors()) {
          bytes += each.bytes.size();
          refuses([&] { all.verify(each); }, file.string());
        }
        expect(bytes <= input.size(), "tensors have more bytes than their file");
      },
      file.string());
}

}  // namespace tutti::fuzz
