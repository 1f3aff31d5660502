// Connection: what the acceptor knows of one that it makes, or that is being made to it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "transports/tcp/endpoint.hpp"
#include "transports/tcp/session.hpp"
#include "tutti/clock.hpp"

namespace tutti::tcp {

/// A rank that may connect to this one, or be connected to.
struct Peer {
  Endpoint endpoint;
  std::vector<Candidate> candidates;
  int connections = 1;
};

/// The state of one connection.
struct Connection {
  const Peer* peer = nullptr;
  bool wanted = false;  // open() was called
  bool open = false, lost = false;
  const Session* choosing = nullptr;
  std::size_t next = 0;  // index of the next candidate to try
  Deadline next_at{}, since{};
  std::map<std::string, std::string> failures;  // by candidate
  std::set<std::string> cut;                    // candidates that were there, and closed the connection the last time

  bool calling() const noexcept { return wanted && !open && !lost; }

  /// An attempt has failed; the next one may be made.
  void failed(const Session& attempt, const std::string& why) {
    constexpr Seconds between_rounds{0.1}, soon{0.005};  // between two rounds over all addresses
    failures[attempt.where()] = why;
    if (attempt.cut()) {
      cut.insert(attempt.where());
    } else {
      cut.erase(attempt.where());
    }
    next_at = Clock::now();
    if (next == peer->candidates.size())
      next_at += std::chrono::duration_cast<Clock::duration>(cut.empty() ? between_rounds : soon);
  }

  /// A peer that refuses connections for this long is gone. One that takes them and closes them is there; it has many
  /// callers, and closes the oldest.
  Seconds patience() const noexcept { return cut.empty() ? Seconds(0.3) : Seconds(15); }
};

}  // namespace tutti::tcp
