// Calls for tests of the model: layouts of hosts, a call by an algorithm, and its time by estimate and by replay.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "collectives/model/replay.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {

inline constexpr double us = 1e-6;

/// 1 us and 1 GB/s within a host, 10 us and 0.5 GB/s between hosts; nothing else costs anything.
inline Network plain() {
  Network network;
  network[Level::within] = {1 * us, 1e-9, 0};
  network[Level::between] = {10 * us, 2e-9, 0};
  return network;
}

inline Hosts blocks(int hosts, int ranks) {
  std::vector<int> host;
  for (int rank = 0; rank < hosts * ranks; ++rank) host.push_back(rank / ranks);
  return {host, hosts * ranks};
}

/// Racks with this number of hosts each, and hosts with this number of ranks each.
inline Hosts in_racks(int racks, int hosts, int ranks) {
  std::vector<int> host, rack;
  for (int rank = 0; rank < racks * hosts * ranks; ++rank) {
    host.push_back(rank / ranks);
    rack.push_back(rank / ranks / hosts);
  }
  return {host, racks * hosts * ranks, std::span(&rack, 1)};
}

/// Two hosts with `first` and `second` ranks.
inline Hosts uneven(int first, int second) {
  std::vector<int> host(static_cast<std::size_t>(first + second), 1);
  std::fill_n(host.begin(), first, 0);
  return {host, first + second};
}

inline int size_of_all(const Hosts& hosts) { return static_cast<int>(hosts.host().size()); }

inline Collective call_of(Kind kind, std::string_view name, const Hosts& hosts, std::size_t count) {
  const Algorithm* const algorithm = find_algorithm(kind, name);
  const Shape shape{.size = size_of_all(hosts), .count = count, .hosts = &hosts};
  return {algorithm, shape, 4, {1, count}};
}

/// Returns the call's estimated and replayed (simulated) time, cut into pieces of the size with the least estimate.
inline std::pair<double, double> times_of(Collective call, const Network& network) {
  const std::size_t piece = best_piece(*call.algorithm, call.shape, 4, network);
  call.lanes = lanes_of(*call.algorithm, call.shape, 4, piece);
  call.max_lanes = Limits().at_once(piece);
  return {*estimate(*call.algorithm, call.shape, 4, call.lanes, network, call.max_lanes),
          replay(call, network).seconds};
}

}  // namespace tutti::model
