// The hosts of a job, from --hosts or a file, and the placement of ranks on them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Parses a list such as "h1:2,me@h2,[fd00::1]:4". A rack may follow the slots: "h1:2@rack7". A host without a number
/// has one slot. If a host is named twice, its slots are added. Throws Error{invalid}.
std::vector<Host> parse_hosts(std::string_view list);

/// Reads lines such as "h1", "h1:2", "fd00::1" or "h1 slots=2 max_slots=4 user=me rack=rack7". The format is that of
/// Open MPI and hydra, except for the rack. Comments follow # or //, or are between /* and
/// */. Throws Error{invalid}.
std::vector<Host> read_hostfile(const std::string& path);

struct Placing {
  bool oversubscribe = false;  ///< permits more ranks than slots; each host gets ranks in proportion to its slots
  bool by_node = false;        ///< hosts get ranks in turn, instead of consecutive ranks
};

/// Gives every host as many ranks as it has slots, in order, and removes hosts without ranks. `ranks` 0 means all
/// slots. Returns the number of ranks. Throws Error{invalid} if there are more ranks than slots without
/// `oversubscribe`, or more than a host's `most`.
int place_ranks(std::vector<Host>& hosts, int ranks, const Placing& placing = {});

}  // namespace tutti::tools
