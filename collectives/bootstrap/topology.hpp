// Topology: the hosts, NUMA nodes and GPUs of a communicator's ranks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/hosts.hpp"

namespace tutti {

/// The location of one rank.
struct Place {
  std::string host = {};        ///< equal for ranks on the same host: boot id and network namespace, or TUTTI_HOST_ID
  std::string host_name = {};   ///< for messages
  int numa_node = -1;           ///< the NUMA node of its cores; -1: several or unknown
  std::string gpu_domain = {};  ///< equal for ranks that see the same GPUs; empty: none
};

/// The places of a communicator's ranks, by rank; equal on all ranks. A value type: copies share the places of the
/// job.
class Topology {
 public:
  Topology() : Topology(std::vector<Place>{}) {}
  explicit Topology(std::vector<Place> places);

  /// The topology of some of these ranks: members[i] becomes rank i.
  Topology of(std::span<const int> members) const;

  int size() const noexcept { return static_cast<int>(members_.size()); }
  const Place& operator[](int rank) const { return (*places_)[members_.at(static_cast<std::size_t>(rank))]; }

  /// The ranks grouped by host; ranks of a host need not be contiguous.
  const Hosts& hosts() const noexcept { return *hosts_; }

  /// The number of each rank's host in hosts(), by rank, as Shape::host expects. Valid as long as a copy of this
  /// object exists.
  std::span<const int> host() const noexcept { return hosts_->host(); }

 private:
  Topology(std::shared_ptr<const std::vector<Place>> places, std::vector<std::size_t> members);

  std::shared_ptr<const std::vector<Place>> places_;  // of all ranks of the job
  std::vector<std::size_t> members_;
  std::shared_ptr<const Hosts> hosts_;
};

}  // namespace tutti
