// PeerBook: see peer_book.hpp.
#include "transports/tcp/peer_book.hpp"

#include <exception>

#include "tutti/status.hpp"

namespace tutti::tcp {

const Peer& PeerBook::operator[](int rank) {
  if (const auto found = read_.find(rank); found != read_.end()) return found->second;
  if (!knows(rank)) throw Error(Code::internal, "rank " + std::to_string(rank) + " is not connected by tcp", rank);
  Peer made;
  made.endpoint = directory_[rank];
  made.candidates = candidates_for(made.endpoint, self_, own_);
  made.connections = connections_between(made.endpoint, self_, connections_);
  return read_.emplace(rank, std::move(made)).first->second;
}

bool PeerBook::allows(int rank, int connection) noexcept {
  try {
    return knows(rank) && connection < (*this)[rank].connections;
  } catch (const std::exception&) {
    return false;  // its addresses cannot be read
  }
}

int PeerBook::most_connections() const {
  const bool only_one = connections_ == 0 && directory_.stays_on_the_host_of(self_);
  return only_one ? 1 : most_connections_between(connections_);
}

}  // namespace tutti::tcp
