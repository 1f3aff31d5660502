// The hosts of a job, from --hosts or a file, and the placement of ranks on them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Parses a list such as "h1:2,me@h2,[fd00::1]:4", where behind the slots may stand the rack: "h1:2@rack7". A host
/// without a number has one slot; the slots of a host that is named twice are added. Throws Error{invalid}.
std::vector<Host> parse_hosts(std::string_view list);

/// Reads lines "h1", "h1:2", "fd00::1" or "h1 slots=2 max_slots=4 user=me rack=rack7", as Open MPI and hydra have
/// them but for the rack, with comments behind # or // and between /* and
/// */. Throws Error{invalid}.
std::vector<Host> read_hostfile(const std::string& path);

struct Placing {
  bool oversubscribe = false;  ///< ranks may outnumber the slots; every host gets more in proportion to its slots
  bool by_node = false;        ///< hosts get ranks in turn, not consecutive ones
};

/// Gives every host as many ranks as it has slots, in order, and removes hosts without ranks; `ranks` 0 stands for all
/// slots. Returns the number of ranks. Throws Error{invalid} if ranks outnumber the slots without `oversubscribe`, or
/// those that a host takes at most.
int place_ranks(std::vector<Host>& hosts, int ranks, const Placing& placing = {});

}  // namespace tutti::tools
