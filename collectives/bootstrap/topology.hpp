// Topology: where the ranks of a communicator are.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/hosts.hpp"

namespace tutti {

/// Where one rank is.
struct Place {
  std::string host = {};        ///< equal text, one host: boot id and network namespace, or what TUTTI_HOST_ID says
  std::string host_name = {};   ///< for people
  int numa_node = -1;           ///< the one that its cores are on; -1: several, or unknown
  std::string gpu_domain = {};  ///< ranks with equal text see the same GPUs; empty: none
};

/// The places of the ranks 0 .. size()-1 of a communicator, in their order; known alike on all of them. A value: copies
/// share the places of the job.
class Topology {
 public:
  Topology() : Topology(std::vector<Place>{}) {}
  explicit Topology(std::vector<Place> places);

  /// Of some of these ranks: members[i] becomes rank i.
  Topology of(std::span<const int> members) const;

  int size() const noexcept { return static_cast<int>(members_.size()); }
  const Place& operator[](int rank) const { return (*places_)[members_.at(static_cast<std::size_t>(rank))]; }

  /// The ranks by host. Distinct hosts are counted, however the ranks alternate between them.
  const Hosts& hosts() const noexcept { return *hosts_; }

  /// By rank, the number of its host in hosts(): what Shape::host wants. Valid as long as any copy of this.
  std::span<const int> host() const noexcept { return hosts_->host(); }

 private:
  Topology(std::shared_ptr<const std::vector<Place>> places, std::vector<std::size_t> members);

  std::shared_ptr<const std::vector<Place>> places_;  // of the job
  std::vector<std::size_t> members_;
  std::shared_ptr<const Hosts> hosts_;
};

}  // namespace tutti
