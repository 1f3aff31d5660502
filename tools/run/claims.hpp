// Claims: what the agents below have said of their ranks, and so what they may say next. The other side of a channel
// may be no agent, or a broken one; what passes here can be true of ranks that are there.
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
  /// `branches` are those that speak, of `hosts` (all that they have, in order); `first` is the place of hosts.front().
  Claims(const std::vector<Branch>& branches, const std::vector<Host>& hosts, std::size_t first);

  /// True if some branch has the rank.
  bool has(int rank) const { return ranks_.contains(rank); }
  /// The index of the branch that has the rank, which there must be.
  std::size_t branch_of(int rank) const { return ranks_.at(rank).branch; }

  /// Takes note of what `branch` says. Throws Error{protocol} if that cannot be. ready, alive and goodbye are not for
  /// this.
  void take(std::size_t branch, const Frame& frame);
  /// Takes note of what is sent to a branch: go, end, input, taken.
  void tell(const Frame& frame);
  bool going() const noexcept { return going_; }
  bool ending() const noexcept { return ending_; }

 private:
  struct Stream {
    std::size_t unwritten = 0;  ///< bytes that have come and are not acknowledged
    bool ended = false;
  };
  struct Rank {
    std::size_t branch = 0;
    bool started = false;
    Stream streams[2];
  };
  Rank& rank_of(std::size_t branch, int rank);
  void take_output(Stream& stream, const Frame& frame);
  void take_lost(const Branch& branch, const Frame& frame) const;

  std::vector<Branch> branches_;
  std::unordered_map<int, Rank> ranks_;
  std::size_t unread_ = 0;  ///< bytes of rank 0's input that are not acknowledged
  bool going_ = false, ending_ = false;
};

}  // namespace tutti::tools
