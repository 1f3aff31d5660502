// The postal tree: a tree from one host to all others in which a host sends more messages while its first ones travel.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti::pieces {

/// A host that has the data starts `ports` messages in every unit of time, up to `most_sends` times. Each receiver has
/// the data `travel` units later and does the same. This tree reaches the most hosts in a given time. A host has a
/// label in the tree: the root has 0. The labels of a subtree are consecutive, and its top has the lowest. The first
/// child of a host has the highest labels below that host. So a tree that lacks some hosts lacks them at the ends of
/// its longest paths. Plain data. The time of a call is proportional to the logarithm of the number of hosts.
///
/// Bar-Noy & Kipnis, "Designing broadcasting algorithms in the postal model for message-passing systems", SPAA 1992.
class PostalTree {
 public:
  static constexpr int travel = 5;       ///< units; a message takes 4 to 7 times as long as its sending
  static constexpr int most_sends = 12;  ///< further sends would reach few hosts

  PostalTree(int hosts, int ports) noexcept : hosts_(hosts), ports_(ports) {
    while (reach(units_) < hosts) {
      ++units_;
      reach_[static_cast<std::size_t>(units_)] =
          reach(units_ - 1) + ports * (reach(units_ - travel) - reach(units_ - travel - most_sends));
    }
  }

  /// A host in the tree.
  struct Place {
    std::int64_t label = 0;
    int units = 0;             ///< the units that are left when the host has the data
    std::int64_t parent = -1;  ///< the parent's label; -1 for the root
    int port = 0;              ///< the port by which the parent sends to this host
  };
  Place root() const noexcept { return {0, units_, -1, 0}; }
  int units() const noexcept { return units_; }
  /// The number of sends by each port of a host with so many units left. Includes sends to labels without a host.
  int sends(int units) const noexcept { return std::clamp(units - travel + 1, 0, most_sends); }

  /// Calls visit(place) for every host on the path from the root to the host with this label.
  template <typename Visit>
  void each_on_the_way(std::int64_t label, Visit visit) const {
    Place here = root();
    visit(here);
    while (here.label != label) visit(here = towards(here, label));
  }
  /// Calls visit(place) for every child of this host, in the order of the sends.
  template <typename Visit>
  void each_child(const Place& here, Visit visit) const {
    const int all = sends(here.units);
    for (int send = 0; send < all; ++send)
      for (int port = 0; port < ports_; ++port)
        if (const Place there = child(here, send, port); there.label < hosts_) visit(there);
  }

 private:
  /// The most hosts that have the data after `units` units.
  std::int64_t reach(int units) const noexcept {
    return units < 0 ? 0 : units < travel ? 1 : reach_[static_cast<std::size_t>(units)];
  }
  Place child(const Place& here, int send, int port) const noexcept {
    const std::int64_t each = reach(here.units - travel - send);
    return {here.label + 1 + later(here.units, send) + port * each, here.units - travel - send, here.label, port};
  }
  /// The number of hosts in the subtrees of the sends that follow send `send`.
  std::int64_t later(int units, int send) const noexcept {
    std::int64_t sum = 0;
    for (int i = send + 1; i < sends(units); ++i) sum += ports_ * reach(units - travel - i);
    return sum;
  }
  Place towards(const Place& here, std::int64_t label) const noexcept {
    int send = 0;
    while (label <= here.label + later(here.units, send)) ++send;
    const std::int64_t each = reach(here.units - travel - send);
    const std::int64_t below = label - here.label - 1 - later(here.units, send);
    return child(here, send, static_cast<int>(below / each));
  }

  int hosts_, ports_;
  int units_ = 0;
  std::array<std::int64_t, 96> reach_{};  // by units; 2^31 hosts with one port need no more
};

}  // namespace tutti::pieces
