// What `tutti run` was asked to do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::tools {

/// A host and its ranks, in ascending order.
struct Host {
  std::string name;
  int slots = 1;
  std::vector<int> ranks;
};

struct Job {
  int ranks = 0;                   ///< of the whole job
  std::vector<int> here;           ///< the ranks of this host, in ascending order
  std::vector<std::string> words;  ///< the program and its arguments
  std::string file;                ///< the program's file; on other hosts their agents look for it
  bool tag_output = false;
  bool bind = false;        ///< each rank of a host to one of its cores
  double grace = 2;         ///< seconds that the others have to end by themselves once one has failed
  bool keep_going = false;  ///< ranks that fail are reported, and the others are left alone
  double time_limit = 0;    ///< seconds until all is ended; 0: none
  std::map<std::string, std::string> variables;  ///< for every rank, beside its own
  std::string mark;  ///< the value of TUTTI_STARTER in the ranks of this host, by which stragglers are known

  // For several hosts.
  std::vector<Host> hosts;          ///< empty: all ranks are started here, by this process
  std::string remote_start;         ///< the command that starts something on a host
  std::string remote_tutti;         ///< `tutti` on the other hosts
  std::string address;              ///< of the launcher, as the hosts reach it; empty: the agents try which they reach
  std::vector<std::string> stores;  ///< where the launcher's store may be reached, for the agents to try
  double silence = 15;              ///< seconds without a word after which a host, or the launcher, is lost
  double start_patience = 60;       ///< seconds that a host has to answer
};

/// Starts the ranks, passes on signals and output, ends all when one fails, unless the job is to keep going. Returns
/// the exit code: of the rank that failed first.
int run_job(const Job& job);

}  // namespace tutti::tools
