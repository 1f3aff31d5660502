// The postal tree: news from one host to all others, where a host goes on sending while its messages travel.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti::pieces {

/// A host that has the news begins `ports` messages in every unit of time, up to `most_sends` times; `travel` units
/// later their receivers have the news and do the same. The tree is the one that reaches most hosts in a number of
/// units. A host's label is its place in it: 0 is the root, and every subtree has consecutive labels, from that of the
/// host at its top on. The host that is sent to first has the highest labels, so what a tree of fewer hosts lacks is
/// where the way is longest. Plain data; all calls take time in proportion to the logarithm of the hosts.
///
/// Bar-Noy & Kipnis, "Designing broadcasting algorithms in the postal model for message-passing systems", SPAA 1992.
class PostalTree {
 public:
  static constexpr int travel = 5;       ///< as a message takes 4 to 7 times as long as its sending
  static constexpr int most_sends = 12;  ///< later ones reach few hosts

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
    int units = 0;             ///< that are left when it has the news
    std::int64_t parent = -1;  ///< its label
    int port = 0;              ///< of its parent's host
  };
  Place root() const noexcept { return {0, units_, -1, 0}; }
  int units() const noexcept { return units_; }
  /// How many times a host sends by each of its ports, those in vain included that no host is left for.
  int sends(int units) const noexcept { return std::clamp(units - travel + 1, 0, most_sends); }

  /// Calls visit(place) for every host from the root to that with this label.
  template <typename Visit>
  void each_on_the_way(std::int64_t label, Visit visit) const {
    Place here = root();
    visit(here);
    while (here.label != label) visit(here = towards(here, label));
  }
  /// Calls visit(place) for all hosts that are sent to from this one, the first first.
  template <typename Visit>
  void each_child(const Place& here, Visit visit) const {
    const int all = sends(here.units);
    for (int send = 0; send < all; ++send)
      for (int port = 0; port < ports_; ++port)
        if (const Place there = child(here, send, port); there.label < hosts_) visit(there);
  }

 private:
  /// The most hosts that have the news after so many units.
  std::int64_t reach(int units) const noexcept {
    return units < 0 ? 0 : units < travel ? 1 : reach_[static_cast<std::size_t>(units)];
  }
  Place child(const Place& here, int send, int port) const noexcept {
    const std::int64_t each = reach(here.units - travel - send);
    return {here.label + 1 + later(here.units, send) + port * each, here.units - travel - send, here.label, port};
  }
  /// The hosts below those that a host sends to after this send.
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
  std::array<std::int64_t, 96> reach_{};  // as many units as 2^31 hosts take with one port
};

}  // namespace tutti::pieces
