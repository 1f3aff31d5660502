// Roles: which ranks of a run with masters keep the parameters, and which ones work. Masters are the processes of the
// parameter server.
#pragma once

#include <string>
#include <vector>

#include "engine/config.hpp"
#include "nn/module.hpp"
#include "tutti/buffer.hpp"

namespace tutti::engine {

/// Returns true if ranks train by masters (strategy.how=server).
bool has_masters(const Config& config);

/// What each rank does.
struct Roles {
  std::vector<int> masters = {};               ///< ranks that keep the parameters, in shards
  std::vector<std::vector<int>> workers = {};  ///< by worker: its ranks; the first one communicates with the masters
  std::vector<int> submasters = {};            ///< by group: the rank that keeps its parameters; then masters = {0}
  std::vector<tutti::Range> groups = {};       ///< by group: its workers
};

/// The first strategy.masters ranks keep the parameters and do nothing else. With strategy.masters=0 all ranks keep a
/// part and work too, or rank 0 keeps everything with strategy.members=quorum. The other ranks are workers of
/// strategy.processes ranks each. With strategy.submasters rank 0 is the top master, the next ranks are the
/// sub-masters, and the others are workers; each group has consecutive workers, and group sizes differ by one at most.
/// Throws Error{invalid} if the ranks do not come out even.
Roles roles_of(const Config& config, int ranks);

/// Returns true if the rank is a master or a sub-master.
bool keeps_parameters(const Roles& roles, int rank);
/// Returns the rank that reports the death of `master`, a master or sub-master, which several ranks notice.
int tells_of_death(const Roles& roles, int master);

/// Describes the groups of a run with sub-masters: the ranks of each, and the bytes that a sub-master exchanges. Empty
/// for other runs. Throws Error{invalid}, also for ranks that do not come out even.
std::string explain_groups(const Config& config, const std::vector<nn::NamedTensor>& parameters, int ranks);

}  // namespace tutti::engine
