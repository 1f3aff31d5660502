// Data of CSV files, plain or gzip'd.
#include "engine/data/formats/source.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".csv");
  return !refuses([&] { engine::load("csv:" + file.string(), 1, 1); }, file.string());
}

}  // namespace tutti::fuzz
