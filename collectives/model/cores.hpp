// Cores: the processors that ranks share in the model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/model/network.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {

/// The cores of all hosts together, at least 1; 0 if every rank has its own.
inline double shared_cores(const Network& network, const Hosts& hosts) noexcept {
  const bool are_shared = network.cores > 0 && network.cores < hosts.largest();
  return are_shared ? std::max(1.0, network.cores * hosts.count()) : 0;
}

/// The cores in a replay: each host has its own if their number is whole; otherwise all hosts share those of one
/// machine, which plays them.
class Cores {
 public:
  /// The hosts share no cores, so that a replay may play one for all.
  static bool are_by_host(const Network& network) noexcept { return network.cores == std::floor(network.cores); }

  /// `hosts_played`: how many the replay has.
  Cores(const Network& network, const Hosts& hosts, std::size_t hosts_played) {
    const double all = shared_cores(network, hosts);
    if (all == 0) return;
    const bool by_host = are_by_host(network);
    const auto in_pool = static_cast<std::size_t>(std::lround(by_host ? network.cores : all));
    pools_.resize(by_host ? hosts_played : 1, Pool(in_pool));
  }

  /// Takes a core of the host for `busy` seconds, from `time` on at the earliest: that which was last free then, or is
  /// free first. Returns when that is over.
  double take(int host, double time, double busy) {
    if (pools_.empty()) return time + busy;
    Pool& pool = pools_[pools_.size() == 1 ? 0 : static_cast<std::size_t>(host)];
    double& core = *std::ranges::min_element(
        pool, {}, [&](double until) { return until <= time ? std::pair(0.0, -until) : std::pair(until, 0.0); });
    return core = std::max(time, core) + busy;
  }

 private:
  using Pool = std::vector<double>;  // until when each of them is taken
  std::vector<Pool> pools_;          // by host, or one for all; none: each rank has a core
};

}  // namespace tutti::model
