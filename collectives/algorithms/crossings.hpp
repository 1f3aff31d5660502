// Crossings: formulas for Algorithm::crossing that several algorithms share.
#pragma once

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti::pieces {

/// The elements that cross hosts in an allreduce in which ranks with the same local index share a chunk, and send the
/// least possible between hosts. across(chunk, hosts, host) returns the elements of a chunk that the host sends to
/// other hosts.
inline Crossing crossing_by_chunks(const Shape& s, std::size_t (*across)(std::size_t, const Hosts&, int)) {
  const Hosts& hosts = hosts_of(s);
  const Chunks chunk(s.count, hosts.columns());
  Crossing what{.total = times(2 * (hosts.count() - 1), s.count)};
  for (int host = 0; host < hosts.count(); ++host) {
    std::size_t sent = 0;
    for (int i = 0; i < hosts.columns(); ++i) sent += across(chunk[i].count, hosts, host);
    what.most = std::max(what.most, sent);
  }
  return what;
}

/// The elements that cross hosts if every block enters, or leaves, every host except its own once.
inline std::size_t every_block_once(const Shape& s) { return times(hosts_of(s).count() - 1, times(s.size, s.count)); }

/// The crossing in that case, if each host sends the blocks, or sums of blocks, of all ranks except its own.
inline Crossing crossing_by_blocks(const Shape& s) {
  return {every_block_once(s), times(s.size - hosts_of(s).smallest(), s.count)};
}

}  // namespace tutti::pieces
