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

/// Gives every host consecutive ranks, as many as it has slots; `ranks` 0 stands for all slots. Hosts that get none
/// are left out. Where ranks outnumber the slots: Error{invalid}, or with `oversubscribe` every host gets more in
/// proportion. Returns the number of ranks.
int place_ranks(std::vector<Host>& hosts, int ranks, bool oversubscribe);

}  // namespace tutti::tools
