// Data of text files.
#include "engine/data/formats/source.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  file_with(input, ".txt");
  return !refuses([&] { engine::load("text:" + folder().string() + ",context=8", 1, 1); }, folder().string());
}

}  // namespace tutti::fuzz
