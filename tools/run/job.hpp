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
  int most = 0;  ///< the largest number of ranks on the host; 0: any number
  std::vector<int> ranks;
  std::string rack = {};  ///< the value for TUTTI_RACK; empty: the host knows it itself
};

/// How far the number of processes may change while the job runs.
struct Elastic {
  int least = 0;       ///< the job ends if fewer processes are left; 0: it is not elastic
  int most = 0;        ///< the library admits no more processes
  int restarts = 100;  ///< how many replacements of failed ranks are started at most
};

struct Job {
  int ranks = 0;                   ///< number of ranks in the whole job
  std::vector<int> here;           ///< the ranks of this host, in ascending order
  std::vector<std::string> words;  ///< the program and its arguments
  std::string file;                ///< the program's file; empty with several hosts: their agents search for it
  bool tag_output = false;
  bool bind = false;  ///< bind each rank to one core of its host
  /// Seconds between the first failure, or the signal to end, and the SIGTERM to ranks that still run. Default: 2 after
  /// a failure, 30 after a signal.
  std::optional<double> grace;
  bool keep_going = false;                       ///< report ranks that fail, and let the others run
  Elastic elastic;                               ///< if set, keep_going is set, too
  double time_limit = 0;                         ///< seconds after which all ranks are ended; 0: no limit
  std::map<std::string, std::string> variables;  ///< variables of every rank, in addition to its own
  /// The value that a variable has for the ranks, or `otherwise` if it has none or an empty one.
  std::string variable(const std::string& name, const std::string& otherwise = {}) const;
  std::string mark;  ///< value of TUTTI_STARTER in this host's ranks, which identifies processes that they leave behind

  // Used with several hosts.
  std::vector<Host>
      hosts;  ///< empty: this process starts all ranks on this host; for an agent: its own host, and those below
  std::size_t place = 0;     ///< index of hosts.front() in the tree's order of all hosts; 0 for the launcher
  int fan_out = 32;          ///< the largest number of hosts that the launcher, or an agent, starts itself
  std::string remote_start;  ///< the command that starts a program on a host
  std::string remote_tutti;  ///< path of `tutti` on the other hosts; empty: the same as on this host
  std::string address;       ///< the launcher's address for the other hosts; empty: the agents try all of its addresses
  std::vector<std::string> stores;  ///< URLs of the launcher's store; the agents try them
  double silence = 15;              ///< seconds without a message after which a host, or the launcher, is lost
  double start_patience = 60;       ///< seconds in which a host that is being started has to become ready
};

/// Starts the ranks, forwards signals and output, and ends all ranks when one fails, unless keep_going is set. Returns
/// the exit code of the rank that failed first and was not replaced; 0 if there is none; exit_time_limit; or
/// exit_signal_base plus the SIGTERM or SIGINT that ended the job. Throws Error.
int run_job(const Job& job);

}  // namespace tutti::tools
