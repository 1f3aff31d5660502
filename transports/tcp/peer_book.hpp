// PeerBook: what a rank knows about its peers: their addresses, and how many connections it may have with each.
#pragma once

#include <map>
#include <vector>

#include "transports/tcp/directory.hpp"

namespace tutti::tcp {

/// Another rank, as this rank connects to it.
struct Peer {
  Endpoint endpoint;
  std::vector<Candidate> candidates;
  int connections = 1;
};

/// Parses the endpoint of a rank when it is first needed, and keeps the result. One thread at a time.
class PeerBook {
 public:
  /// For the rank that listens at `self` and has the interfaces `own`. `connections`: the setting tcp_connections.
  PeerBook(Directory directory, Endpoint self, std::vector<Interface> own, int connections)
      : directory_(std::move(directory)), self_(std::move(self)), own_(std::move(own)), connections_(connections) {}

  bool knows(int rank) const { return directory_.knows(rank); }
  /// The reference stays valid. Throws Error{protocol} for unreadable addresses, Error{internal} for an unknown rank.
  const Peer& operator[](int rank);
  /// True if the rank is known and may have a connection with this number.
  bool allows(int rank, int connection) noexcept;
  /// The maximum of Peer::connections over all ranks.
  int most_connections() const;

 private:
  const Directory directory_;
  const Endpoint self_;
  const std::vector<Interface> own_;
  const int connections_;
  std::map<int, Peer> read_;
};

}  // namespace tutti::tcp
