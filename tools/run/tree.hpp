// The tree of agents: who starts whom.
//
// One process that starts every host would hold descriptors, processes and a heartbeat for each, and a slow remote
// start would be waited for as often as there are hosts at a time. So the launcher starts at most N agents
// (`--fan-out`), each of which starts at most N others with the same remote start command, and so on: every process has
// N children at most, and a host is ceil(log_N(hosts)) remote starts away, as in the tree spawn of rsh launchers.
//
// Hosts have an order, in which a branch is a run of neighbours: first the host that its agent runs on, behind it those
// below. So an agent, the hosts that are lost with it, and the way to a rank are two numbers each, and all that a
// process is told of the tree is its own branch. The launcher's own host comes first, as a leaf, because nobody else
// can start something there without the remote start command.
//
// An agent with hosts below it is a launcher to them: both use Branches, which holds the connections and checks what
// comes over them. What is said of a rank travels up unchanged, what is said to a rank goes down the branch that has
// it, and each process hears of its own neighbours alone whether they live. A process that loses a branch kills its
// remote start and says so upwards in one frame; what is below loses its connection, as ranks of an agent do, and ends
// by itself.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Neighbours in the order of hosts.
struct Branch {
  std::size_t first = 0;  ///< the host of the agent, which starts the others
  std::size_t count = 1;  ///< with the first
  std::size_t end() const noexcept { return first + count; }
};

/// Brings the `local` hosts, which are this one by other names, to the front, in unchanged order. Returns how many
/// there are.
std::size_t order_hosts(std::vector<Host>& hosts);

/// Splits the hosts [first, first + count) into `most` branches at most, whose sizes differ by one at most. The first
/// `leaves` hosts are branches of their own; behind them there is always room for one.
std::vector<Branch> split(std::size_t first, std::size_t count, std::size_t most, std::size_t leaves = 0);

/// How many remote starts after one another bring up a branch of so many hosts.
int height(std::size_t count, std::size_t most);

/// The host that starts `host`, which is not the first in `branch`.
std::size_t starter(const Branch& branch, std::size_t host, std::size_t most);

}  // namespace tutti::tools
