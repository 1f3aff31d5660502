// Claims: checks what the agents below report. The other side of a channel may be no agent, or a broken one. A frame
// passes the check if it names ranks and hosts of that branch and can follow what was reported before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tools/run/channel.hpp"
#include "tools/run/tree.hpp"

namespace tutti::tools {

class Claims {
 public:
  /// `branches` report. `hosts` are all their hosts, in order. `first` is the place of hosts.front().
  Claims(const std::vector<Branch>& branches, const std::vector<Host>& hosts, std::size_t first);

  /// Returns true if a branch has the rank.
  bool has(int rank) const { return ranks_.contains(rank); }
  /// Returns the index of the branch that has the rank. A branch must have it.
  std::size_t branch_of(int rank) const { return ranks_.at(rank).branch; }

  /// Checks and records a frame from `branch`, except ready, alive and goodbye. Throws Error{protocol} if it is
  /// impossible.
  void take(std::size_t branch, const Frame& frame);
  /// Records a frame that is sent to a branch: go, end, input, taken, clock, ask, restart.
  void tell(const Frame& frame);
  bool going() const noexcept { return going_; }
  bool ending() const noexcept { return ending_; }

 private:
  struct Stream {
    std::size_t unwritten = 0;  ///< bytes received and not acknowledged yet
    bool ended = false;
  };
  struct Rank {
    std::size_t branch = 0;
    bool started = false;
    bool restarts = false;  ///< a replacement was asked for, and has not started
    Stream streams[2];
    std::int64_t answered = 0;  ///< the last question that was answered for the rank
  };
  Rank& rank_of(std::size_t branch, int rank);
  bool has_host(std::size_t branch, std::int32_t host) const;
  void take_output(Stream& stream, const Frame& frame);
  void take_lost(const Branch& branch, const Frame& frame) const;
  void take_answer(std::size_t branch, const Frame& frame);

  std::vector<Branch> branches_;
  std::unordered_map<int, Rank> ranks_;
  std::size_t unread_ = 0;                 ///< bytes of rank 0's input not acknowledged yet
  std::int64_t stamp_ = 0, question_ = 0;  ///< the last ones that were sent
  bool going_ = false, ending_ = false;
};

}  // namespace tutti::tools
