// Roles: which ranks of a run with masters keep the parameters, and which are workers. Masters are the processes of the
// parameter server.
#pragma once

#include <string>
#include <vector>

#include "engine/config.hpp"
#include "nn/module.hpp"
#include "tutti/buffer.hpp"

namespace tutti::engine {

/// Returns true if the run trains with masters (strategy.how=server).
bool has_masters(const Config& config);

/// The roles of all ranks.
struct Roles {
  std::vector<int> masters = {};               ///< ranks that keep the parameters, in shards
  std::vector<std::vector<int>> workers = {};  ///< by worker: its ranks; the first communicates with the masters
  std::vector<int> submasters = {};            ///< by group: the rank that keeps its parameters; if any, masters is {0}
  std::vector<tutti::Range> groups = {};       ///< by group: its workers
};

/// Assigns the roles. The first strategy.masters ranks keep the parameters and do nothing else. With strategy.masters=0
/// all ranks keep a part and are workers too; with strategy.members=quorum, rank 0 then keeps all parameters. The other
/// ranks form workers of strategy.processes ranks each. With strategy.submasters rank 0 is the top master, the next
/// ranks are the sub-masters, and the others are workers. Each group has consecutive workers; group sizes differ by at
/// most one. Throws Error{invalid} if the ranks cannot be divided evenly.
Roles roles_of(const Config& config, int ranks);

/// Returns true if the rank is a master or a sub-master.
bool keeps_parameters(const Roles& roles, int rank);
/// Returns the rank that reports the death of `master`, a master or a sub-master; several ranks notice such a death.
int tells_of_death(const Roles& roles, int master);

/// Describes the groups of a run with sub-masters: the ranks of each, and the bytes that a sub-master exchanges.
/// Returns an empty text for other runs. Throws Error{invalid}, also if the ranks cannot be divided evenly.
std::string explain_groups(const Config& config, const std::vector<nn::NamedTensor>& parameters, int ranks);

}  // namespace tutti::engine
