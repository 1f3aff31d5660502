// The job that `tutti run` starts.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// A host and its ranks, in ascending order.
struct Host {
  std::string name;
  int slots = 1;
  int most = 0;  ///< ranks that it takes at most; 0: any number
  std::vector<int> ranks;
  std::string rack = {};  ///< as TUTTI_RACK has it; empty: what the host knows itself
};

struct Job {
  int ranks = 0;                   ///< number of ranks in the whole job
  std::vector<int> here;           ///< the ranks of this host, in ascending order
  std::vector<std::string> words;  ///< the program and its arguments
  std::string file;                ///< the program's file; empty with several hosts, whose agents search for it
  bool tag_output = false;
  bool bind = false;  ///< bind each rank of a host to one core
  /// Seconds from the first failure, or the signal to end, to SIGTERM for those that run; unless given, 2 and 30.
  std::optional<double> grace;
  bool keep_going = false;                       ///< report ranks that fail, and leave the others running
  double time_limit = 0;                         ///< seconds until all ranks are ended; 0: no limit
  std::map<std::string, std::string> variables;  ///< for every rank, in addition to its own
  std::string mark;  ///< value of TUTTI_STARTER in this host's ranks, which identifies processes that they leave behind

  // Used with several hosts.
  std::vector<Host>
      hosts;  ///< empty: all ranks are started here, by this process; for an agent: its own, and those below
  std::size_t place = 0;     ///< of hosts.front() in the tree's order (tree.hpp); 0 for the launcher
  int fan_out = 32;          ///< hosts that the launcher starts at most, and each agent
  std::string remote_start;  ///< the command that starts a program on a host
  std::string remote_tutti;  ///< path of `tutti` on the other hosts; empty: the same as here
  std::string address;  ///< the launcher's address, as the hosts reach it; empty: the agents try all of its addresses
  std::vector<std::string> stores;  ///< URLs of the launcher's store for the agents to try
  double silence = 15;              ///< seconds without a message after which a host, or the launcher, is lost
  double start_patience = 60;       ///< seconds that a host has to become ready once it is being started
};

/// Starts the ranks, forwards signals and output, and ends all ranks when one fails, unless the job is to keep going.
/// Returns the exit code of the rank that failed first, 0 if none did, exit_time_limit, or exit_signal_base and the
/// SIGTERM or SIGINT that ended the job. Throws Error.
int run_job(const Job& job);

}  // namespace tutti::tools
