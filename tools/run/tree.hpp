// The tree of agents: which process starts which hosts.
//
// If one process started every host, it would hold descriptors, processes and a heartbeat for each, and would have to
// wait for every slow remote start. So the launcher starts at most N agents (`--fan-out`). Each agent starts at most N
// others with the same remote start command, and so on. Every process has at most N children, and a host is
// ceil(log_N(hosts)) remote starts away, as in the tree spawn of rsh launchers.
//
// Hosts have an order, in which a branch is a range: first the host of its agent, then the hosts below. So two numbers
// are enough to name a branch, for example the hosts that are lost with an agent, and a process needs to know only its
// own branch of the tree. The launcher's own host comes first, as a leaf, because other hosts cannot start anything on
// it without the remote start command.
//
// An agent with hosts below it acts as a launcher for them: both use Branches, which holds the connections and checks
// the frames from them. Frames about a rank travel up unchanged. Frames to a rank go down the branch that has the rank.
// Each process watches only the processes next to it for signs of life. A process that loses a branch kills its remote
// start and reports the loss upwards in one frame. The agents below lose their connection and end by themselves, as an
// agent's ranks do.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// A range in the order of hosts.
struct Branch {
  std::size_t first = 0;  ///< the host of the branch's agent, which starts the others
  std::size_t count = 1;  ///< number of hosts, including the first
  std::size_t end() const noexcept { return first + count; }
};

/// Moves the hosts that are this one by other names to the front, and keeps their order. Returns their number.
std::size_t order_hosts(std::vector<Host>& hosts);

/// Splits the hosts [first, first + count) into branches. Each of the first `leaves` hosts is a branch of its own. The
/// others form at most `most` - `leaves` branches, but at least one, whose sizes differ by at most one.
std::vector<Branch> split(std::size_t first, std::size_t count, std::size_t most, std::size_t leaves = 0);

/// Returns how many consecutive remote starts bring up a branch of `count` hosts.
int height(std::size_t count, std::size_t most);

/// Returns the host that starts `host`, which must not be the first host of `branch`.
std::size_t starter(const Branch& branch, std::size_t host, std::size_t most);

}  // namespace tutti::tools
