// The texts of a provider's peers.
#include "tutti/provider/provider.hpp"

namespace tutti {

Texts Rendezvous::texts_of_peers(std::string_view name, const Text& mine) const {
  if (exchange) return exchange(name, mine);
  const auto key_of = [&](int of) { return std::string(name) + "/" + std::to_string(of); };
  std::vector<Awaited> keys;
  for (const int peer : peers) keys.push_back({key_of(peer), departure_key(peer)});
  Texts own;
  own.add(mine.own, mine.shared);
  std::vector<std::string> values;
  if (store != nullptr) values = store->set_and_wait(key_of(rank), own.bytes(), keys, until);
  Texts all;
  std::size_t next = 0;
  for (int of = 0; of < size; ++of) {
    if (next < values.size() && peers[next] == of)
      all.append(Texts::parse(values[next++]));
    else
      all.add({}, {});
  }
  return all;
}

}  // namespace tutti
