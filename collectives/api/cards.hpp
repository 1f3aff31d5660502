// Cards: the description of itself that each rank publishes before the ranks connect.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/provider/provider.hpp"
#include "tutti/topology.hpp"

namespace tutti {

/// A provider that this rank wants to use. If the provider is not viable on this rank, the card contains the reason,
/// so that the other ranks can report it.
struct Wanted {
  std::string name;
  Found found;
};

/// Returns this rank's card. Its shared part is normally equal on all ranks of a host: the host's identity and name,
/// its GPUs, its rack if known, and for each wanted provider the domain, or the reason why it is not viable. The rank's
/// own part is its NUMA node and its cores.
Text write_card(std::span<const Wanted> wanted, const Settings& settings);

/// The cards of all ranks. Ranks with the same shared part have one HostCard. Any thread.
class Cards {
 public:
  struct HostCard {
    Place place;                                              // without numa_node, which differs between ranks
    std::map<std::string, std::string, std::less<>> domains;  // by viable provider
    std::map<std::string, std::string, std::less<>> reasons;  // why the other providers are not viable
  };

  explicit Cards(Texts texts);

  int size() const noexcept { return static_cast<int>(texts_.size()); }
  const HostCard& operator[](int rank) const {
    return hosts_[texts_.shared_numbers().at(static_cast<std::size_t>(rank))];
  }
  /// The hosts, NUMA nodes, GPUs and racks of all ranks.
  Topology topology() const;
  /// The cores that the rank may run on, in the format of core_list().
  std::string_view cores(int rank) const;
  bool share_a_host(int a, int b) const { return (*this)[a].place.host == (*this)[b].place.host; }
  bool share_one_host() const;  ///< true if all ranks are on one host

  /// Element r is true if `rank` and rank r may try to connect by this provider. The relation is symmetric.
  std::vector<bool> may_try(int rank, std::string_view provider) const;
  /// True if every rank will connect by this provider: all ranks have it in the same domain, the ranks are on several
  /// hosts, and no rank has a provider that stands before it in `order` and connects different hosts. The result is
  /// equal on all ranks.
  bool all_connect_by(std::string_view provider, std::span<const std::string> order) const;

 private:
  bool all_have(std::string_view provider) const;
  bool none_has(std::string_view provider) const;
  int numa_node(int rank) const;

  Texts texts_;
  std::vector<HostCard> hosts_;  // index: number of the shared part in texts_
};

}  // namespace tutti
