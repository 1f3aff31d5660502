// Connection: the acceptor's state of one connection with a peer; either of the two ranks may make it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "transports/tcp/peer_book.hpp"
#include "transports/tcp/session.hpp"
#include "tutti/clock.hpp"
#include "tutti/status.hpp"

namespace tutti::tcp {

/// The state of one connection.
struct Connection {
  const Peer* peer = nullptr;
  bool wanted = false;  // open() was called
  bool open = false, lost = false;
  const Session* choosing = nullptr;
  std::size_t next = 0;  // index of the next candidate to try
  Deadline next_at{}, since{};
  std::map<std::string, std::string> failures;  // by candidate
  std::string no_files;                         // advice if a socket could not be made for want of descriptors
  std::set<std::string> cut;                    // candidates that accepted the last attempt and then closed it

  bool calling() const noexcept { return wanted && !open && !lost; }

  /// Records that an attempt has failed, and when the next one may be made.
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

  /// "rank 3 on host a cannot be reached by tcp; 10.0.0.1:4711: Connection refused". cause_of_loss() adds what to do.
  std::string failures_text(int rank) const;
  Cause cause_of_loss(int rank, int reporter) const;

  /// How long attempts may fail before the peer counts as gone. A peer that accepts connections and closes them is
  /// alive: it has too many callers and closes the oldest ones. So it gets more time.
  Seconds patience() const noexcept { return cut.empty() ? Seconds(0.3) : Seconds(15); }
};

}  // namespace tutti::tcp
