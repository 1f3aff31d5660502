// A model's layers, in our own form or as Keras writes them.
#include "engine/models/layers.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  return !refuses([&] { engine::parse_layers(std::string(text_of(input)), "model.yaml"); }, "model.yaml");
}

}  // namespace tutti::fuzz
