// The launcher's description of this process, read from environment variables; private to collectives/bootstrap.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/bootstrap.hpp"

namespace tutti::launchers {

/// Looks up an environment variable. Tests pass their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

Environment process_environment();

/// by_hand: TUTTI_RANK and TUTTI_SIZE are set without `tutti run`. kubernetes: an indexed Job.
enum class Launcher { tutti_run, by_hand, torchrun, open_mpi, hydra, slurm, kubernetes, alone };

struct Membership {
  Launcher launcher = Launcher::alone;
  std::string name = "alone";
  std::string evidence;  ///< "RANK=1, WORLD_SIZE=4"
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
};

struct Choice {
  Membership membership;
  std::vector<std::string> notes;     ///< for the log at level info
  std::vector<std::string> warnings;  ///< for the log at level warn
};

/// The first launcher, in the order of the enumeration, whose variables are complete. Throws Error{invalid} if a
/// variable of that launcher is not valid, or if two launchers started this process and disagree. `has_store`:
/// TUTTI_STORE is set, so no launcher has to provide a store.
Choice choose_membership(const Environment& environment, bool has_store);

/// The number in a variable; nullopt if it is not set. Throws Error{invalid} if it is not a number.
std::optional<int> number_in(const Environment& environment, const std::string& name);

/// Expands SLURM's host list "n[1-3,07],login" to n1 n2 n3 n07 login. Throws Error{invalid}.
std::vector<std::string> expand_hosts(const std::string& list);

/// The number of tasks on a node from SLURM's list: "4(x2),3" stands for 4 4 3. 0 if there is no entry.
int tasks_on_node(const std::string& list, int node);

/// bootstrap_from_environment() with a given environment.
Bootstrap bootstrap_from(const Settings& settings, const Environment& environment);

}  // namespace tutti::launchers
