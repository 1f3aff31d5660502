// PeerBook: what a rank knows of those that it may connect to.
#pragma once

#include <map>
#include <vector>

#include "transports/tcp/directory.hpp"

namespace tutti::tcp {

/// A rank that may connect to this one, or be connected to.
struct Peer {
  Endpoint endpoint;
  std::vector<Candidate> candidates;
  int connections = 1;
};

/// Reads where a rank listens when that is first needed, and remembers it. One thread at a time.
class PeerBook {
 public:
  /// Of the rank that listens at `self`, over the interfaces `own`. `connections`: the setting tcp_connections.
  PeerBook(Directory directory, Endpoint self, std::vector<Interface> own, int connections)
      : directory_(std::move(directory)), self_(std::move(self)), own_(std::move(own)), connections_(connections) {}

  bool knows(int rank) const { return directory_.knows(rank); }
  /// Stays where it is. Throws Error{protocol} if its addresses cannot be read, Error{internal} if it is not known.
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
