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
  for (const std::string& text : texts_.shared_texts())
    if (!text.empty()) static_cast<void>(Endpoint::host_part(text));
}

bool Directory::stays_on_the_host_of(const Endpoint& self) const {
  return std::ranges::all_of(texts_.shared_texts(), [&](const std::string& text) {
    return text.empty() || Endpoint::host_part(text).identity == self.identity;
  });
}

}  // namespace tutti::tcp
