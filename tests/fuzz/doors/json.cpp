// JSON documents: limits, and names that occur twice.
#include <nlohmann/json.hpp>

#include "engine/config/documents.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  return !refuses([&] { engine::parse_json(text_of(input), "some.json").dump(); }, "some.json");
}

}  // namespace tutti::fuzz
