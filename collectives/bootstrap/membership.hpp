// What the launchers' variables say about this process, before it has met anybody; private to collectives/bootstrap.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bootstrap/bootstrap.hpp"

namespace tutti::launchers {

/// Looks up an environment variable. The process's own, or a test's.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

Environment process_environment();

/// by_hand: somebody has set TUTTI_RANK and TUTTI_SIZE. kubernetes: an indexed Job.
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

/// The first launcher in the order of the enumeration whose variables are complete. Throws Error{invalid} where a
/// variable of the winner makes no sense, or where two launchers started this process and disagree.
/// `has_store`: TUTTI_STORE is set, so that nobody has to name a meeting point.
Choice choose_membership(const Environment& environment, bool has_store);

/// The number in a variable; nothing where it is not set. Throws Error{invalid} where it is no number.
std::optional<int> number_in(const Environment& environment, const std::string& name);

/// The hosts of SLURM's "n[1-3,07],login": n1 n2 n3 n07 login. Throws Error{invalid}.
std::vector<std::string> expand_hosts(const std::string& list);

/// The entry of "4(x2),3" for this node: 4 4 3. 0 where there is none.
int tasks_on_node(const std::string& list, int node);

/// bootstrap_from_environment() with any environment.
Bootstrap bootstrap_from(const Settings& settings, const Environment& environment);

}  // namespace tutti::launchers
