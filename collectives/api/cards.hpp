// Cards: what the ranks tell one another before they connect.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/provider/provider.hpp"
#include "tutti/topology.hpp"

namespace tutti {

/// A provider that this rank wants to use. If it is not viable here, the reason is in the card for the other ranks
/// too.
struct Wanted {
  std::string name;
  Found found;
};

/// The card of this rank. What all ranks of a host have in common is the shared part: the host and its name, the GPUs,
/// the rack where it is known, and of each wanted provider its domain, or why it is not viable. The NUMA node and the
/// cores are the rank's own.
Text write_card(std::span<const Wanted> wanted, const Settings& settings);

/// The cards of all ranks. Ranks with the same shared part have one HostCard. Any thread.
class Cards {
 public:
  struct HostCard {
    Place place;                                              // numa_node is the rank's own
    std::map<std::string, std::string, std::less<>> domains;  // by viable provider
    std::map<std::string, std::string, std::less<>> reasons;  // why the other providers are not viable
  };

  explicit Cards(Texts texts);

  int size() const noexcept { return static_cast<int>(texts_.size()); }
  const HostCard& operator[](int rank) const {
    return hosts_[texts_.shared_numbers().at(static_cast<std::size_t>(rank))];
  }
  /// The places of all ranks.
  Topology topology() const;
  /// That the rank may run on, as text of core_list().
  std::string_view cores(int rank) const;
  bool share_a_host(int a, int b) const { return (*this)[a].place.host == (*this)[b].place.host; }
  bool share_one_host() const;  ///< all ranks

  /// True by rank if `rank` and that one may try to connect by this provider; the same in both directions.
  std::vector<bool> may_try(int rank, std::string_view provider) const;
  /// True if every rank connects by this provider when its turn comes: all have it, there are several hosts, and no
  /// rank has one of those before it in `order` that leads to other hosts. All ranks know this alike, whatever they
  /// have.
  bool all_connect_by(std::string_view provider, std::span<const std::string> order) const;

 private:
  bool all_have(std::string_view provider) const;
  bool none_has(std::string_view provider) const;
  int numa_node(int rank) const;

  Texts texts_;
  std::vector<HostCard> hosts_;  // by number of the shared part
};

}  // namespace tutti
