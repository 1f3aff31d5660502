// Directory: see directory.hpp.
#include "transports/tcp/directory.hpp"

#include <algorithm>

namespace tutti::tcp {

Directory::Directory(int size, const std::vector<Endpoint>& endpoints) {
  for (int rank = 0; rank < size; ++rank) {
    const auto found = std::ranges::find(endpoints, rank, &Endpoint::rank);
    const Text text = found == endpoints.end() ? Text{} : found->text();
    texts_.add(text.own, text.shared);
  }
}

void Directory::check() const {
  const PackedTexts& hosts = texts_.shared_texts();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!hosts[i].empty()) static_cast<void>(Endpoint::host_part(hosts[i]));
}

bool Directory::stays_on_the_host_of(const Endpoint& self) const {
  const PackedTexts& hosts = texts_.shared_texts();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!hosts[i].empty() && Endpoint::host_part(hosts[i]).identity != self.identity) return false;
  return true;
}

}  // namespace tutti::tcp
