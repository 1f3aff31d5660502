// Data of IDX files, plain or gzip'd.
#include "engine/data/formats/idx.hpp"

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".idx");
  return !refuses([&] { engine::read_idx(file, 3); }, file.string());
}

}  // namespace tutti::fuzz
