// Cores: the processor cores that the ranks of a host share in the model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/model/network.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {

/// The number of cores of all hosts together, at least 1; 0 if every rank has its own core.
inline double shared_cores(const Network& network, const Hosts& hosts) noexcept {
  const bool are_shared = network.cores > 0 && network.cores < hosts.largest();
  return are_shared ? std::max(1.0, network.cores * hosts.count()) : 0;
}

/// The cores in a replay. If Network::cores is an integer, each host has its own cores. Otherwise all hosts share the
/// cores of the one machine that simulates them.
class Cores {
 public:
  /// True if no two hosts share cores. Then a replay may play one host for all.
  static bool are_by_host(const Network& network) noexcept { return network.cores == std::floor(network.cores); }

  /// `hosts_played`: the number of hosts in the replay.
  Cores(const Network& network, const Hosts& hosts, std::size_t hosts_played) {
    const double all = shared_cores(network, hosts);
    if (all == 0) return;
    const bool by_host = are_by_host(network);
    const auto in_pool = static_cast<std::size_t>(std::lround(by_host ? network.cores : all));
    pools_.resize(by_host ? hosts_played : 1, Pool(in_pool));
  }

  /// Occupies a core of the host for `busy` seconds, not before `time`: the free core that became free last or, if none
  /// is free at `time`, the core that becomes free first. Returns the time at which the occupation ends.
  double take(int host, double time, double busy) {
    if (pools_.empty()) return time + busy;
    Pool& pool = pools_[pools_.size() == 1 ? 0 : static_cast<std::size_t>(host)];
    double& core = *std::ranges::min_element(
        pool, {}, [&](double until) { return until <= time ? std::pair(0.0, -until) : std::pair(until, 0.0); });
    return core = std::max(time, core) + busy;
  }

 private:
  using Pool = std::vector<double>;  // for each core, the time until which it is occupied
  std::vector<Pool> pools_;          // by host, or one pool for all; empty: each rank has its own core
};

}  // namespace tutti::model
