// The address of a store.
#include "collectives/bootstrap/store_url.hpp"

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  return !refuses([&] { parse_store_url(std::string(text_of(input))); });
}

}  // namespace tutti::fuzz
