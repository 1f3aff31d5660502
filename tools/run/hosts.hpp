// The hosts of a job, from --hosts or a file, and which ranks each gets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// "h1:2,h2,[fd00::1]:4". A host without a number has one slot; one that is named again gets more. Throws
/// Error{invalid}.
std::vector<Host> parse_hosts(std::string_view list);

/// Lines "h1", "h1:2" or "h1 slots=2"; what stands behind # is a comment. Throws Error{invalid}.
std::vector<Host> read_hostfile(const std::string& path);

struct Placing {
  bool oversubscribe = false;  ///< ranks may outnumber the slots: every host gets more in proportion
  bool by_node = false;        ///< ranks one after the other on every host, not consecutive ones on each
};

/// Gives every host as many ranks as it has slots; `ranks` 0 stands for all slots. Hosts that get none are left out.
/// Returns the number of ranks. Throws Error{invalid} where ranks outnumber the slots.
int place_ranks(std::vector<Host>& hosts, int ranks, const Placing& placing = {});

}  // namespace tutti::tools
