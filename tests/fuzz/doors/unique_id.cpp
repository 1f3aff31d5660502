// Unique ids, as a program hands them to tutti_comm_from_unique_id().
#include "bindings/c/unique_ids.hpp"

#include <algorithm>

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  char id[c::unique_id_bytes] = {};
  std::copy_n(input.begin(), std::min(input.size(), sizeof id), id);
  return !refuses([&] {
    const launchers::StoreCard card = c::card_in(id);
    expect(!card.endpoints.empty(), "an id without an address");
    for (const launchers::Endpoint& each : card.endpoints) expect(each.port > 0 && each.port < 65536, "no port");
    launchers::shown(card.endpoints);
  });
}

}  // namespace tutti::fuzz
